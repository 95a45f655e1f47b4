//===- Stages.h - what holds between the stages of a program -------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_STAGES_H
#define CLEAVE_DIALECTS_TRAIN_STAGES_H

#include "dialects/train/Program.h"

namespace cleave::train {

/// Checks that each stage of `program` takes from its neighbours what these give: forwards crossing
/// values from the stage before, backwards crossing gradients from the stage after, with equal
/// types; that no parameter has two updates and no gradient is updated with in another stage; and
/// that all forwards draw the same count of numbers. A program that is not in stages has nothing
/// that crosses. Emits an error otherwise.
llvm::LogicalResult verifyStages(const Program &program);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_STAGES_H
