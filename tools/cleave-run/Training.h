//===- Training.h - cleave-run's training mode -------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_TRAINING_H
#define CLEAVE_TOOLS_CLEAVE_RUN_TRAINING_H

#include "tools/cleave-run/Options.h"
#include "llvm/Support/CommandLine.h"

namespace cleave::run {

/// The categories of the options that belong to training, for --help.
extern llvm::cl::OptionCategory trainingCategory, dataCategory, reportingCategory,
    checkpointCategory;

/// Whether the command line asks to train: it gives --steps or --data.
bool isTraining();

/// The name of an option on the command line that only training heeds; empty if there is none. A
/// step that is compared heeds --microbatches, too.
llvm::StringRef givenTrainingOption(bool takesMicrobatches);

/// What training reads and writes besides what every mode does.
std::vector<runtime::NamedPath> listTrainingInputs();
std::vector<runtime::NamedPath> listTrainingOutputs();

/// The number that --microbatches gives, or 1.
int64_t getMicrobatches();

/// Trains on all ranks; the status for `main` to return. Call it before anything of MLIR or
/// LibTorch is used: it may fork.
int runTraining(const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_TRAINING_H
