//===- TensorFiles.h - weights, inputs and dumps of a session ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_TENSORFILES_H
#define CLEAVE_RUNTIME_EXEC_TENSORFILES_H

#include "cleave/Session.h"
#include "runtime/io/Safetensors.h"

namespace cleave::runtime {

/// Checks that `file` holds exactly the tensors that `expected` describes: every one under its name
/// or one of its aliases, with its dtype and shape, and no other. The error lists all differences.
/// `what` is what the file is for: "weights", "inputs".
llvm::Error checkTensors(const SafetensorsFile &file, llvm::ArrayRef<ValueInfo> expected,
                         llvm::StringRef what);

/// Reads all weights of the session's program from the safetensors file `path`.
llvm::Error loadWeights(Session &session, llvm::StringRef path);

/// Reads the inputs and targets of one microbatch from the safetensors file `path`.
llvm::Error loadInputs(Session &session, llvm::StringRef path);

/// Writes every result of the last microbatch to `path` under its file name.
llvm::Error dumpResults(Session &session, llvm::StringRef path);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_TENSORFILES_H
