//===- ReduceFunction.h - gradients reduced before the update --------*- C++ -*-===//
//
// What an update does to gradients before the optimizer takes them may have to be done before any
// update starts: where stages tell each other of their gradients, or where the update is skipped.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PASSES_GRADIENTS_REDUCEFUNCTION_H
#define CLEAVE_PASSES_GRADIENTS_REDUCEFUNCTION_H

#include "passes/gradients/GradientNorm.h"

namespace cleave::gradients {

/// Moves what the update does to each gradient before the optimizer takes it (reductions, waiting
/// for buckets) to the function of phase reduce, which is made if need be, so that the update takes
/// what is left to do: the new values of `gradients`. `purpose` is what messages say of it.
llvm::LogicalResult reduceBeforeUpdate(train::ProgramFunctions &stage,
                                       llvm::MutableArrayRef<TakenGradient> gradients,
                                       llvm::StringRef purpose);

/// What the reduce function returns for each of these, which the update then takes.
llvm::SmallVector<mlir::Value> getReduced(const train::ProgramFunctions &stage,
                                          llvm::ArrayRef<TakenGradient> gradients);

} // namespace cleave::gradients

#endif // CLEAVE_PASSES_GRADIENTS_REDUCEFUNCTION_H
