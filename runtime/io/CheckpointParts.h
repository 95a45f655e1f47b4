//===- CheckpointParts.h - what the writers of checkpoints share --*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_CHECKPOINTPARTS_H
#define CLEAVE_RUNTIME_IO_CHECKPOINTPARTS_H

#include "runtime/io/Error.h"
#include "llvm/Support/JSON.h"

namespace cleave::runtime {

/// {"bytes": ..., "xxh3": "..."} of a file that has been written.
llvm::Expected<llvm::json::Object> summarizeFile(llvm::StringRef path);

/// Writes a file that appears under its name once it is on the disk.
llvm::Error writeText(llvm::StringRef path, llvm::StringRef text);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_CHECKPOINTPARTS_H
