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

#include <vector>

namespace cleave::train {

inline constexpr llvm::StringLiteral kPhaseAttrName = "train.phase";
inline constexpr llvm::StringLiteral kRoleAttrName = "train.role";
/// Random numbers that one run of the function draws (i64).
inline constexpr llvm::StringLiteral kDrawsAttrName = "train.draws";
/// On the module: what the mean of the loss is over, a TargetsAttr; without it, the microbatches.
inline constexpr llvm::StringLiteral kMeanOverAttrName = "train.mean_over";
/// On the module: the rule of the loss's scale, a LossScalingAttr; without it, losses have none.
inline constexpr llvm::StringLiteral kLossScalingAttrName = "train.loss_scaling";
/// The sum over stages that is 0 where all gradients of a scaled loss are finite, else NaN.
inline constexpr llvm::StringLiteral kNonFiniteGradients = "nonfinite_gradients";
/// On ops: activation-checkpointing tag, part of the backward (unit), pipeline stage (i64; also on
/// the functions of a program in stages).
inline constexpr llvm::StringLiteral kCheckpointAttrName = "train.checkpoint";
inline constexpr llvm::StringLiteral kBackwardAttrName = "train.backward";
inline constexpr llvm::StringLiteral kStageAttrName = "train.stage";
/// On functions: the ranks that run this one, `{tp = array<i64: 1>}`: places by mesh axis; an axis
/// that is not named stands for all of its places. See `RankClasses.h`.
inline constexpr llvm::StringLiteral kRanksAttrName = "train.ranks";
/// On ops of a backward (unit): makes the gradient of an activation that the backward-input is for;
/// recomputes what an earlier function of the microbatch has computed.
inline constexpr llvm::StringLiteral kActivationGradientAttrName = "train.activation_gradient";
inline constexpr llvm::StringLiteral kRecomputedAttrName = "train.recomputed";

/// The phase functions of a module; null if the module has none.
struct ProgramFunctions {
  mlir::func::FuncOp microbatch;
  mlir::func::FuncOp update;
  // A microbatch in parts, in place of `microbatch`: forward, and backward or its two halves.
  mlir::func::FuncOp forward;
  mlir::func::FuncOp backward;
  mlir::func::FuncOp backwardInput;
  mlir::func::FuncOp backwardWeight;
  // Once per step, before the first and after the last microbatch.
  mlir::func::FuncOp unshard;
  mlir::func::FuncOp reduce;
  /// A program in pipeline stages: the functions of each, from the first stage to the last. All of
  /// the above are then null.
  std::vector<ProgramFunctions> stages;

  bool isStaged() const { return !stages.empty(); }
  /// What a pass that works on one stage at a time works on: each stage, or the program itself.
  llvm::ArrayRef<ProgramFunctions> getParts() const {
    return isStaged() ? llvm::ArrayRef(stages) : llvm::ArrayRef(*this);
  }
  bool hasUpdate() const {
    return llvm::any_of(getParts(), [](const ProgramFunctions &part) { return bool(part.update); });
  }
  /// Whether a microbatch is several functions.
  bool isSplit() const { return forward || isStaged(); }
  mlir::func::FuncOp get(Phase phase) const;
  /// What runs for each microbatch, in this order; stages go forward from the first, back from the
  /// last.
  llvm::SmallVector<mlir::func::FuncOp, 3> getMicrobatchFunctions() const;
  /// All of them, in the order in which a step runs them.
  llvm::SmallVector<mlir::func::FuncOp, 8> getFunctions() const;
};

/// The role of an argument or result; null outside program functions.
RoleAttr getArgumentRole(mlir::func::FuncOp function, unsigned argument);
RoleAttr getResultRole(mlir::func::FuncOp function, unsigned result);

/// Which forms of a microbatch a caller can work with.
enum class ProgramForms {
  Joint, ///< one function of phase microbatch
  Any,   ///< that, or a forward and its backward
  Staged ///< either, or pipeline stages that have a forward and its backward each
};

/// Finds the program of `module`. Where no `train.program` has it verified, checks what no single
/// function can (`docs/ir.md`, "Forward and backward"): that functions agree about parameters,
/// inputs and saved values, that stages pass on what the next one takes, and that the update gets
/// the gradients it takes. Emits an error otherwise, for forms that the caller cannot work with,
/// and for functions that only some ranks run.
llvm::FailureOr<ProgramFunctions> getProgram(mlir::ModuleOp module,
                                             ProgramForms forms = ProgramForms::Joint);

/// The same for the functions whose `train.ranks` is `ranks` (null: those that have none).
llvm::FailureOr<ProgramFunctions> getProgramOf(mlir::ModuleOp module, mlir::DictionaryAttr ranks,
                                               ProgramForms forms, bool isVerified);

/// Whether the module's verifier sees to it that its functions are a program: it has a
/// `train.program`.
bool isVerifiedProgram(mlir::ModuleOp module);
/// Adds a `train.program` in front, unless there is one.
void markProgram(mlir::ModuleOp module);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_PROGRAM_H
