//===- SplitFunction.h - builds the halves of a backward ------------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_SPLITFUNCTION_H
#define CLEAVE_LIB_BACKWARD_SPLITFUNCTION_H

#include "lib/backward/SplitPlan.h"

namespace cleave::backward {

/// dI and dW of a backward.
struct BackwardHalves {
  mlir::func::FuncOp input, weight;
  /// Ops of which each half computes some results, and those of dI that dW recomputes.
  unsigned numDivided = 0, numRecomputed = 0;
};

/// Builds both halves of `whole` as `plan` says, and erases it. Names of what dI gives to dW differ
/// from all that the functions of `program` save.
BackwardHalves splitFunction(const train::ProgramFunctions &program, mlir::func::FuncOp whole,
                             const SplitPlan &plan);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_SPLITFUNCTION_H
