//===- CollectiveParts.h - What collectives share ----------------*- C++ -*-===//
//
// Private to Collectives.cpp (those that reduce) and Exchanges.cpp (those that move).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_COLLECTIVEPARTS_H
#define CLEAVE_RUNTIME_COMM_COLLECTIVEPARTS_H

#include "Message.h"
#include "runtime/comm/Collectives.h"

#include <ATen/ATen.h>

namespace cleave::runtime {

/// One work and what becomes of it; or the error of its start.
inline PendingOr pending(llvm::Expected<std::unique_ptr<Work>> work,
                         std::function<Pending::Tensors()> finish) {
  if (!work)
    return work.takeError();
  std::vector<std::unique_ptr<Work>> works;
  works.push_back(std::move(*work));
  return Pending(std::move(works), std::move(finish));
}

/// What a lowered operation is for: "gradient "w" (all_reduce max)".
inline std::string partOfOperation(llvm::StringRef what, llvm::StringRef operation,
                                   const ReductionOp &reduction) {
  return (what + " (" + operation + " " + reductionName(reduction.kind) + ")").str();
}

inline llvm::Error checkPlace(const RankGroup &group, int place, llvm::StringRef operation) {
  if (place >= 0 && place < group.size())
    return llvm::Error::success();
  return llvm::createStringError("%s: expected a place from 0 to %d, found %d",
                                 operation.str().c_str(), group.size() - 1, place);
}

/// Shape of the tensor that the rank at `place` has, where that differs from `shape` in being
/// another part of dimension `dim`.
inline std::vector<int64_t> partShape(const RankGroup &group, at::IntArrayRef shape, int64_t dim,
                                      int64_t whole, int place) {
  std::vector<int64_t> result = shape.vec();
  result[dim] = group.partAt(whole, place).size;
  return result;
}

/// Memory for a message, where `tensor` is.
inline at::Tensor emptyMessage(int64_t bytes, const at::Tensor &tensor) {
  return at::empty({bytes}, tensor.options().dtype(at::kByte));
}

/// Messages of all ranks, each `bytes` long, in one piece of memory.
inline at::Tensor messageAt(const at::Tensor &all, int64_t bytes, int index) {
  return all.narrow(0, bytes * index, bytes);
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_COLLECTIVEPARTS_H
