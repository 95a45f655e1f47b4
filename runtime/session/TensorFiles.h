//===- TensorFiles.h - weights, inputs and dumps of a session ------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_TENSORFILES_H
#define CLEAVE_RUNTIME_SESSION_TENSORFILES_H

#include "cleave/Session.h"
#include "runtime/io/Safetensors.h"
#include "runtime/io/TensorNames.h"
#include "runtime/ranks/WholeTensors.h"

namespace cleave::runtime {

/// Checks that `tensors` are exactly those of which the `expected` values are this rank's parts:
/// every one under its name or one of its aliases, with its dtype and shape, and no other but those
/// of which `mayBeExtra` says so; and that this rank's parts are equal under all names of a value,
/// unless `isHere` says that it has none. The error lists all differences. `what` is what they are
/// for: "weights", "inputs".
llvm::Error checkTensors(const TensorSet &tensors, llvm::ArrayRef<ValueInfo> expected,
                         const RankGrid &grid, llvm::StringRef what,
                         llvm::function_ref<bool(llvm::StringRef)> mayBeExtra = nullptr,
                         llvm::function_ref<bool(const ValueInfo &)> isHere = nullptr);
/// Checks `tensors` so and reads this rank's part of each to where `destination` says, by value
/// name; values of which `isHere` says that they are not are only checked. Nothing but these parts
/// is read.
llvm::Error
readTensors(const TensorSet &tensors, llvm::ArrayRef<ValueInfo> values, const RankGrid &grid,
            llvm::StringRef what,
            llvm::function_ref<llvm::Expected<TensorRef>(const ValueInfo &)> destination,
            llvm::function_ref<bool(llvm::StringRef)> mayBeExtra = nullptr,
            llvm::function_ref<bool(const ValueInfo &)> isHere = nullptr);

/// Reads the `values` that are the loss module's from its state dict; `what` is what the file is
/// for.
llvm::Error readLossState(const TensorSet &tensors, llvm::ArrayRef<ValueInfo> values,
                          Session &session, llvm::StringRef what);

/// Where weights come from.
struct WeightSource {
  /// Anything that `openWeights` takes.
  std::string path;
  /// What the program's names are there.
  TensorNames names;
  /// A safetensors file for what state dicts leave out, constants and transient buffers, where it
  /// is missing there; empty for none.
  std::string others;
};

/// Reads all weights of the session's program, each rank its part.
llvm::Error loadWeights(Session &session, const WeightSource &source);

/// Reads the weights of the session's program that `isOwn` chooses, constants and the like, from a
/// safetensors file that may have others; without any it needs no file.
llvm::Error readConstants(Session &session, const std::string &file,
                          llvm::function_ref<bool(const ValueInfo &)> isOwn);

/// Writes tensors to a safetensors file.
llvm::Error dump(llvm::ArrayRef<WholeTensor> tensors, OutputFile &file);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_TENSORFILES_H
