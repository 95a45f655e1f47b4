//===- WholeStep.h - compares a step of two programs ---------------*- C++ -*-===//
//
// A step is all microbatches of all ranks and the update after them. Where roles divide the batch,
// each rank runs microbatches of its own, and the program without a mesh runs those of all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_WHOLESTEP_H
#define CLEAVE_TOOLS_CLEAVE_RUN_WHOLESTEP_H

#include "cleave/Session.h"
#include "runtime/comm/Communicator.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// Runs step `options.wholeStep` of `program` on all ranks of `world`, which call it together, and
/// on rank 0 that of the program that `--against` names; prints the difference of every value, of
/// the rank on which it is largest, and fails as `compare` does.
llvm::Error compareSteps(const runtime::Program &program, runtime::Communicator &world,
                         const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_WHOLESTEP_H
