//===- Evaluate.h - one run of a program on given inputs -----------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H

#include "cleave/Session.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// A session with the options' weights and inputs that has run its microbatch once, with 1 as
/// gradient of the loss.
llvm::Expected<std::unique_ptr<runtime::Session>> runOnce(const runtime::Program &program,
                                                          const Options &options);

/// Runs the program once, writes the dump and prints the loss.
llvm::Error evaluate(const runtime::Program &program, const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_EVALUATE_H
