//===- LearningRate.h - another learning rate for a program ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_LEARNINGRATE_H
#define CLEAVE_RUNTIME_TRAIN_LEARNINGRATE_H

#include "cleave/Program.h"

namespace cleave::runtime {

/// Makes `base` the base of the program's learning rate, before a session binds it. An error where
/// the program has none, or several bases, of which one number cannot replace all unless it is 0.
llvm::Error setLearningRate(Program &program, double base);

/// Multiplies the base of each of the program's learning rates by `factor`.
llvm::Error scaleLearningRates(Program &program, double factor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_LEARNINGRATE_H
