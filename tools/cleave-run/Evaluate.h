//===- Evaluate.h - one run of a program on given inputs -----------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H

#include "cleave/Session.h"
#include "runtime/comm/Communicator.h"
#include "runtime/ranks/WholeTensors.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// Microbatches of the options' inputs: one, or as many as the program's schedule is for.
int64_t countMicrobatches(const runtime::Program &program);

/// What the program's results are after `microbatches` of the options' inputs with the options'
/// weights: the mean of their losses and its gradients, the outputs of all. All ranks of `world`
/// call it together; ranks of a schedule have the results where the first stages are.
llvm::Expected<std::vector<runtime::WholeTensor>> runOnce(const runtime::Program &program,
                                                          runtime::Communicator &world,
                                                          const Options &options,
                                                          int64_t microbatches);

/// Runs the program once, writes the dump and prints the loss. All ranks of `world` call it
/// together; rank 0 writes and prints. What ranks of an untyped program have may differ: each
/// writes its own dump, rank N to FILE.rankN.
llvm::Error evaluate(const runtime::Program &program, runtime::Communicator &world,
                     const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H
