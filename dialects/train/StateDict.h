//===- StateDict.h - which tensors a module's state dict has ---------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_TRAIN_STATEDICT_H
#define CLEAVE_DIALECTS_TRAIN_STATEDICT_H

#include "llvm/ADT/StringRef.h"

namespace cleave::train {

/// On the module: names of the buffers that state dicts leave out.
inline constexpr llvm::StringLiteral kTransientAttrName = "train.transient";
/// On the module: names of the parameters and buffers that are the loss module's, each `loss.`
/// before its name there.
inline constexpr llvm::StringLiteral kLossStateAttrName = "train.loss_state";
inline constexpr llvm::StringLiteral kLossPrefix = "loss.";
/// The optimizer state that is a parameter's moving average.
inline constexpr llvm::StringLiteral kAverageSlot = "ema";

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_STATEDICT_H
