//===- Storage.h - which values share memory -----------------------*- C++ -*-===//
//
// What the executor shares: views, accumulators, optimizer state, buckets, and what reductions
// overwrite. Lowered functions say it themselves (`exec.memory`).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_STORAGE_H
#define CLEAVE_LIB_MEMORY_STORAGE_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace cleave::memory {

/// The number of the operand whose memory result `index` of `op` has whatever else happens to the
/// operand: it is a view, or what a communication has brought.
std::optional<unsigned> getSharedOperand(mlir::Operation *op, unsigned index);

/// The number of the operand that `op` overwrites with result `index` if no other op needs what
/// was there; none if it overwrites nothing. Pointwise ops are not asked.
std::optional<unsigned> getOverwrittenOperand(mlir::Operation *op, unsigned index);

/// Which memory a value lives in, named by the value that it was allocated for. Ops are visited in
/// the order in which they run.
class Storage {
public:
  /// `emptyAccumulators`: of a step's first microbatch, in which gradients become the accumulators.
  explicit Storage(bool emptyAccumulators) : emptyAccumulators(emptyAccumulators) {}

  mlir::Value of(mlir::Value value) const {
    auto found = shared.find(value);
    return found == shared.end() ? value : found->second;
  }

  /// Makes `value` another name for what `source` is.
  void alias(mlir::Value value, mlir::Value source) { shared[value] = of(source); }

  /// Records what `op`'s results share.
  void visit(mlir::Operation *op);

private:
  mlir::Value sourceOf(mlir::OpResult result) const;

  bool emptyAccumulators;
  llvm::DenseMap<mlir::Value, mlir::Value> shared;
};

} // namespace cleave::memory

#endif // CLEAVE_LIB_MEMORY_STORAGE_H
