//===- BatchFile.h - microbatches from a file of inputs ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_BATCHFILE_H
#define CLEAVE_RUNTIME_SESSION_BATCHFILE_H

#include "runtime/io/Safetensors.h"
#include "runtime/session/CountedTargets.h"

namespace cleave::runtime {

/// Inputs and targets of all microbatches that a session runs in a step, for all ranks: along the
/// batch dimension one microbatch after another, and of an untyped program's data-parallel ranks
/// one rank's after another's.
class BatchFile {
public:
  /// Checks that the file has what the session's program takes, in these sizes.
  static llvm::Expected<BatchFile> open(Session &session, llvm::StringRef path,
                                        int64_t microbatches);

  /// Copies this rank's part of microbatch `index` to where the session reads it.
  llvm::Error fill(Session &session, int64_t index) const;
  /// How many targets count in this rank's microbatch `index`.
  llvm::Expected<int64_t> count(Session &session, const CountedTargets &targets,
                                int64_t index) const;

private:
  std::unique_ptr<SafetensorsFile> file;
  int64_t microbatches = 1;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_BATCHFILE_H
