//===- Reduction.h - Reductions that a backend lacks -------------*- C++ -*-===//
//
// Private to the collectives: how a reduction is computed where the backend does not, or where it
// takes another element type on the way.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_REDUCTION_H
#define CLEAVE_RUNTIME_COMM_REDUCTION_H

#include "runtime/comm/Communicator.h"

#include <ATen/core/Tensor.h>

namespace cleave::runtime {

/// A reduction as a backend can do it: `before` on every operand, `op`, `after` on the result.
class LoweredReduction {
public:
  /// `terms`: how many operands there are.
  LoweredReduction(const ReductionOp &reduction, at::ScalarType type, int terms);

  /// The element type between the two, and what happens to operands there.
  at::ScalarType type() const { return computed; }
  const ReductionOp &op() const { return between; }

  /// The operand as the backend takes it; itself where nothing is to be done.
  at::Tensor before(const at::Tensor &operand) const;
  /// The result in its own type; overwrites its argument.
  at::Tensor after(at::Tensor result) const;
  /// The reduction of operands by ATen, from the first to the last.
  at::Tensor fold(llvm::ArrayRef<at::Tensor> operands) const;

private:
  ReductionOp asked;
  at::ScalarType original, computed;
  ReductionOp between;
  int terms;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_REDUCTION_H
