//===- PhaseFunction.h - functions of a program under construction --*- C++ -*-===//
//
// Makes phase functions, and gives them arguments and results with roles.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_PHASEFUNCTION_H
#define CLEAVE_LIB_BACKWARD_PHASEFUNCTION_H

#include "dialects/train/Program.h"

namespace cleave::backward {

/// A function of `phase` without arguments and results, for the stage of `like` if that has one:
/// `reduce`, or `reduce_2` of stage 2. Its place and name in the module are the builder's and the
/// phase's: who makes several sees to it that they differ.
mlir::func::FuncOp makePhaseFunction(mlir::OpBuilder &b, mlir::func::FuncOp like,
                                     train::Phase phase);

mlir::func::ReturnOp getReturn(mlir::func::FuncOp function);

/// Adds an argument, or a result that is returned, at the end.
mlir::BlockArgument addArgument(mlir::func::FuncOp function, mlir::Type type, train::RoleAttr role,
                                mlir::Location loc);
void addResult(mlir::func::FuncOp function, mlir::Value value, train::RoleAttr role);
void eraseResult(mlir::func::FuncOp function, unsigned index);

/// The argument with a role of this kind and name, or null.
mlir::BlockArgument findArgument(mlir::func::FuncOp function, train::RoleKind kind,
                                 mlir::StringAttr name);
/// The same of results.
std::optional<unsigned> findResult(mlir::func::FuncOp function, train::RoleKind kind,
                                   mlir::StringAttr name);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_PHASEFUNCTION_H
