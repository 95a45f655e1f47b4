//===- Replay.h - whether a log proves that two programs are one ----*- C++ -*-===//

#ifndef CLEAVE_LIB_REPLAY_REPLAY_H
#define CLEAVE_LIB_REPLAY_REPLAY_H

#include "lib/replay/Log.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::replay {

struct Outcome {
  /// Why the log is no proof, and its line, or 0; empty if it is one.
  std::string problem;
  unsigned line = 0;
  unsigned numValues = 0, numResults = 0;
  /// Values of ops of which this program knows no meaning, taken from the log: how many by lemmas.
  std::map<std::string, unsigned> trusted;
};

/// `hasOwnBuffers`: those that microbatches update may be each rank's own.
Outcome check(mlir::ModuleOp global, mlir::ModuleOp local, const Log &log, Forms &forms,
              bool hasOwnBuffers);

} // namespace cleave::replay

#endif // CLEAVE_LIB_REPLAY_REPLAY_H
