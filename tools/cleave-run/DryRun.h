//===- DryRun.h - what a program will cost -------------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_DRYRUN_H
#define CLEAVE_TOOLS_CLEAVE_RUN_DRYRUN_H

#include "cleave/Session.h"

#include "llvm/Support/raw_ostream.h"

namespace cleave::run {

/// Prints memory, ops and communication of one rank that runs `microbatches` microbatches per step.
void printCosts(const runtime::Program &program, int64_t microbatches,
                runtime::WeightGradients weightGradients, llvm::raw_ostream &os);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_DRYRUN_H
