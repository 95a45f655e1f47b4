//===- Message.h - Several tensors as one piece of memory --------*- C++ -*-===//
//
// Private to the collectives, which send bytes: element types and numbers of tensors are no concern
// of a backend.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_MESSAGE_H
#define CLEAVE_RUNTIME_COMM_MESSAGE_H

#include <ATen/core/Tensor.h>

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace cleave::runtime {

/// Where tensors of known types and shapes lie in a message: one after another, aligned for every
/// element type.
class MessageLayout {
public:
  void add(at::ScalarType type, llvm::ArrayRef<int64_t> shape);
  int64_t numBytes() const { return bytes; }

  /// Copies the tensors, which have this layout, into a message of at least `numBytes()`.
  void write(at::Tensor message, llvm::ArrayRef<at::Tensor> tensors) const;
  /// Tensors that share the message's memory.
  std::vector<at::Tensor> read(const at::Tensor &message) const;

private:
  struct Entry {
    at::ScalarType type;
    std::vector<int64_t> shape;
    int64_t begin, bytes;
  };
  std::vector<Entry> entries;
  int64_t bytes = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_MESSAGE_H
