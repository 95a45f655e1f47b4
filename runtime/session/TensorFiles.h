//===- TensorFiles.h - weights, inputs and dumps of a session ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_TENSORFILES_H
#define CLEAVE_RUNTIME_SESSION_TENSORFILES_H

#include "cleave/Session.h"
#include "runtime/io/Safetensors.h"
#include "runtime/ranks/WholeTensors.h"

namespace cleave::runtime {

/// Checks that `file` holds exactly the tensors of which the `expected` values are this rank's
/// parts: every one under its name or one of its aliases, with its dtype and shape, and no other
/// but those of which `mayBeExtra` says so. The error lists all differences. `what` is what the
/// file is for: "weights", "inputs".
llvm::Error checkTensors(const SafetensorsFile &file, llvm::ArrayRef<ValueInfo> expected,
                         const RankGrid &grid, llvm::StringRef what,
                         llvm::function_ref<bool(llvm::StringRef)> mayBeExtra = nullptr);
/// Checks `file` so and copies this rank's part of each tensor to where `destination` says, by
/// value name; values of which `isHere` says that they are not are only checked.
llvm::Error
readTensors(const SafetensorsFile &file, llvm::ArrayRef<ValueInfo> values, const RankGrid &grid,
            llvm::StringRef what,
            llvm::function_ref<llvm::Expected<TensorRef>(const ValueInfo &)> destination,
            llvm::function_ref<bool(llvm::StringRef)> mayBeExtra = nullptr,
            llvm::function_ref<bool(const ValueInfo &)> isHere = nullptr);

/// Reads the `values` that are the loss module's from its state dict; `what` is what the file is
/// for.
llvm::Error readLossState(const SafetensorsFile &file, llvm::ArrayRef<ValueInfo> values,
                          Session &session, llvm::StringRef what);

/// Reads all weights of the session's program from the safetensors file `path`, or from the
/// checkpoint that is a directory with that name. What state dicts leave out, constants and
/// transient buffers, may be missing there: then it comes from the file `others`, unless that is
/// empty.
llvm::Error loadWeights(Session &session, llvm::StringRef path, llvm::StringRef others = "");

/// Writes tensors to a safetensors file.
llvm::Error dump(llvm::ArrayRef<WholeTensor> tensors, OutputFile &file);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_TENSORFILES_H
