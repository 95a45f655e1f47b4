//===- GradientRoles.h - what a backward's arguments and results are -*- C++ -*-===//
//
// Reads from roles, never from positions, which results of a backward function are gradients of
// inputs and which are gradients of parameters, and where the gradients that it starts from enter.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_GRADIENTROLES_H
#define CLEAVE_LIB_BACKWARD_GRADIENTROLES_H

#include "dialects/train/Program.h"

#include "llvm/ADT/DenseSet.h"

namespace cleave::backward {

/// Results of a backward function by what they are for, as indices.
struct GradientResults {
  /// Gradients of inputs: what the previous stage waits for.
  llvm::SmallVector<unsigned> inputs;
  /// Gradients of parameters.
  llvm::SmallVector<unsigned> parameters;
  /// Everything else that a backward may give: updated buffers, values for later functions.
  llvm::SmallVector<unsigned> others;
};

/// Sorts the results of `function`, a backward function of `program`. A gradient is a parameter's
/// or an input's, as its name says; a name that is neither is an error.
llvm::FailureOr<GradientResults> sortResults(const train::ProgramFunctions &program,
                                             mlir::func::FuncOp function);

/// The arguments of `function` that carry the gradient that it continues: the seed, gradients of
/// outputs, and saved values that another function has computed from such an argument of its own (a
/// prologue that has absorbed the tangents).
llvm::SmallVector<mlir::Value> findTangents(const train::ProgramFunctions &program,
                                            mlir::func::FuncOp function);

/// `values` and everything that is computed from them.
llvm::DenseSet<mlir::Value> valuesFrom(mlir::func::FuncOp function,
                                       llvm::ArrayRef<mlir::Value> values);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_GRADIENTROLES_H
