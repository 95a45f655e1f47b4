//===- LearningRate.h - another learning rate for a program ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_LEARNINGRATE_H
#define CLEAVE_RUNTIME_TRAIN_LEARNINGRATE_H

#include "cleave/Program.h"

namespace cleave::runtime {

/// Makes `base` the base of the program's learning rate, before a session binds it. An error where
/// the program has none, or several bases, of which one number cannot replace all.
llvm::Error setLearningRate(Program &program, double base);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_LEARNINGRATE_H
