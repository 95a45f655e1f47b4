//===- Program.h - the functions of a training program -----------*- C++ -*-===//
//
// Finds a module's phase functions and reads the roles of their arguments and results, for passes
// and the runtime alike.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_TRAIN_PROGRAM_H
#define CLEAVE_DIALECTS_TRAIN_PROGRAM_H

#include "dialects/train/Train.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::train {

inline constexpr llvm::StringLiteral kPhaseAttrName = "train.phase";
inline constexpr llvm::StringLiteral kRoleAttrName = "train.role";
/// Random numbers that one run of the function draws (i64).
inline constexpr llvm::StringLiteral kDrawsAttrName = "train.draws";
/// On ops: activation-checkpointing tag, part of the backward (unit), pipeline stage (i64).
inline constexpr llvm::StringLiteral kCheckpointAttrName = "train.checkpoint";
inline constexpr llvm::StringLiteral kBackwardAttrName = "train.backward";
inline constexpr llvm::StringLiteral kStageAttrName = "train.stage";

/// The phase functions of a module; null where the module has none.
struct Program {
  mlir::func::FuncOp microbatch;
  mlir::func::FuncOp update;
};

/// The role of an argument or result; null outside program functions.
RoleAttr getArgumentRole(mlir::func::FuncOp function, unsigned argument);
RoleAttr getResultRole(mlir::func::FuncOp function, unsigned result);

/// Finds the program of `module` and checks what no single function can: one function of phase
/// microbatch, at most one of phase update, parameters of one type in both, and a gradient result
/// for every gradient the update takes. Emits an error otherwise.
llvm::FailureOr<Program> getProgram(mlir::ModuleOp module);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_PROGRAM_H
