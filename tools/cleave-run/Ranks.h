//===- Ranks.h - the ranks that run a program ----------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RANKS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RANKS_H

#include "runtime/comm/Communicator.h"
#include "tools/cleave-run/Options.h"

#include "llvm/Support/CommandLine.h"

#include <functional>

namespace cleave::run {

/// The category of --ranks and its like.
extern llvm::cl::OptionCategory ranksCategory;

/// Whether --ranks is given, or a launcher made this process one of several ranks.
bool hasRanks();
/// Whether a launcher made this process one of several ranks.
bool isLaunched();

/// Runs `body` on every rank, with the options that name the rank's device; the status for `main`
/// to return. Call it before anything of MLIR or LibTorch is used: it may fork.
/// `isInterruptible` as JobOptions has it.
int runOnRanks(const Options &options,
               const std::function<llvm::Error(runtime::Communicator &, const Options &)> &body,
               bool isInterruptible = false);

/// An error where what was printed could not be written.
llvm::Error flushOutput();

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RANKS_H
