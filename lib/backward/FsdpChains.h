//===- FsdpChains.h - collectives of fully sharded parameters ------*- C++ -*-===//
//
// Under fully sharded data parallelism a microbatch gathers each parameter from its shards before
// it uses it, and reduces and scatters each gradient. Neither depends on the microbatch. Here such
// chains are found, from a parameter forwards and from its gradient backwards; other collectives
// are not changed by queries.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_FSDPCHAINS_H
#define CLEAVE_LIB_BACKWARD_FSDPCHAINS_H

#include "lib/backward/GradientRoles.h"

#include "llvm/ADT/SetVector.h"

namespace cleave::backward {

/// Values of a function that are a parameter in another form: made by all_gather, waits,
/// conversions of placements, casts, copies and views, from nothing else.
class ParameterChains {
public:
  explicit ParameterChains(mlir::func::FuncOp function);

  /// Whether `value` is such a form (or a parameter).
  bool contains(mlir::Value value) const { return gathered.contains(value); }
  /// Whether an all_gather is among what made it.
  bool isGathered(mlir::Value value) const { return gathered.lookup(value); }
  /// The gathered value that `value` is a view of, or itself: what to pass in its place.
  mlir::Value getBase(mlir::Value value) const;
  /// The parameter's role; of coalesced gathers, that of the operand behind the result.
  train::RoleAttr getParameter(mlir::Value value) const;
  /// Gathered values that ops or results outside of the chains need, as `getBase` has them, in the
  /// order of the function.
  llvm::SetVector<mlir::Value> needed() const;

private:
  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, bool> gathered;
};

/// The reductions at the end of a parameter's gradient.
struct GradientChain {
  unsigned result = 0; ///< of the function, which is the gradient
  /// Adds to the accumulator; null if the program has none.
  mlir::Operation *accumulate = nullptr;
  /// What is reduced: the gradient of one microbatch on one rank.
  mlir::Value start;
  /// From `start` to the gradient: linear ops in which `start` is the only data. Never empty.
  llvm::SmallVector<mlir::Operation *> ops;
};

/// The chains of `function`'s gradients of parameters that hold a reduce_scatter or an all_reduce
/// (of sums or means). They start with that collective, or with casts before it to a type narrower
/// than the gradient's, which are then behind the sum over microbatches. Ops of several gradients
/// are in a chain only if they are in one for each of their results.
llvm::SmallVector<GradientChain> findGradientChains(mlir::func::FuncOp function,
                                                    const GradientResults &results);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_FSDPCHAINS_H
