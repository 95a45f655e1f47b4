//===- Stages.h - what holds between the stages of a program -------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_STAGES_H
#define CLEAVE_DIALECTS_TRAIN_STAGES_H

#include "dialects/train/Program.h"

namespace cleave::train {

/// A sum to which stages contribute a term each, and which updates take (`docs/ir.md`, "Stages").
struct StageSum {
  mlir::StringAttr name;
  mlir::RankedTensorType type;
  /// Stages, ascending, whose reduce function gives a term, and whose update takes the sum.
  llvm::SmallVector<unsigned> producers, consumers;
};
/// The sums of a staged program, in the order in which they are first given.
llvm::SmallVector<StageSum> listStageSums(const ProgramFunctions &program);

/// A parameter that one stage updates and others use: tied weights on different stages.
struct SharedParameter {
  mlir::StringAttr name;
  mlir::RankedTensorType type;
  /// The stage whose update gives the new value.
  unsigned updater = 0;
  /// The other stages that take it, ascending: they get the new value after the update.
  llvm::SmallVector<unsigned> consumers;
};
/// The shared parameters of a staged program that are updated, in the order of updates.
llvm::SmallVector<SharedParameter> listSharedParameters(const ProgramFunctions &program);

/// The buckets that a stage (or an unstaged program) reduces over mesh axes, in the order in which
/// its functions complete them. The k-th is what the schedule's `reduceS.k` is about; after all of
/// them comes the stage's reduce function, if it has one.
llvm::SmallVector<BucketOp> listReducedBuckets(const ProgramFunctions &stage);

/// Checks that each stage of `program` takes from its neighbours what these give: forwards crossing
/// values from the stage before, backwards crossing gradients from the stage after, with equal
/// types; that sums over stages have one type, terms and consumers; that no parameter has two
/// updates and no gradient is updated with in another stage; and that all forwards draw the same
/// count of numbers. A program that is not in stages has nothing that crosses. Emits an error
/// otherwise.
llvm::LogicalResult verifyStages(const ProgramFunctions &program);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_STAGES_H
