//===- CompareTraining.h - trains two programs and compares them ---*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_COMPARETRAINING_H
#define CLEAVE_TOOLS_CLEAVE_RUN_COMPARETRAINING_H

#include "runtime/comm/Communicator.h"
#include "runtime/train/Train.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// Trains `program` and the one that `--against` names from the same weights on the same data, and
/// compares each step's loss and the parameters and buffers at the end. A program without a mesh
/// runs on rank 0, which takes all ranks' microbatches. Collective.
llvm::Error compareTraining(runtime::Program &program, runtime::Communicator &world,
                            const runtime::TrainOptions &training, const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_COMPARETRAINING_H
