//===- Evaluate.h - one run of a program on given inputs -----------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H

#include "cleave/Session.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exec/WholeTensors.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// What the program's results are after one microbatch of the options' inputs with the options'
/// weights, and 1 as gradient of the loss. All ranks of `world` call it together.
llvm::Expected<std::vector<runtime::WholeTensor>>
runOnce(const runtime::Program &program, runtime::Communicator &world, const Options &options);

/// Runs the program once, writes the dump and prints the loss. All ranks of `world` call it
/// together; rank 0 writes and prints. What ranks of an untyped program have may differ: each
/// writes its own dump, rank N to FILE.rankN.
llvm::Error evaluate(const runtime::Program &program, runtime::Communicator &world,
                     const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H
