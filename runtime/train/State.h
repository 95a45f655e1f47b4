//===- State.h - between a session and its checkpoints -----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_STATE_H
#define CLEAVE_RUNTIME_TRAIN_STATE_H

#include "cleave/Session.h"
#include "runtime/io/Checkpoint.h"

namespace cleave::runtime {

/// Parameters and buffers under their state-dict names; a tied parameter once. Valid until the
/// session runs again.
llvm::Expected<std::vector<TensorView>> viewModel(Session &session);
/// Optimizer state as NAME.SLOT. Valid until the session runs again.
llvm::Expected<std::vector<TensorView>> viewOptimizer(Session &session);

/// Sets the session's parameters, buffers and optimizer state from a checkpoint; an error that
/// names the differences if it is another model's.
llvm::Error restore(Session &session, const Checkpoint &checkpoint);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STATE_H
