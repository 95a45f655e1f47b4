//===- Against.h - compares what two programs compute --------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_AGAINST_H
#define CLEAVE_TOOLS_CLEAVE_RUN_AGAINST_H

#include "cleave/Session.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// Runs `program` and the one that `--against` names on the same weights and inputs, prints the
/// difference of every value, and fails if one is above the tolerance or only one program has it.
llvm::Error compare(const runtime::Program &program, const Options &options);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_AGAINST_H
