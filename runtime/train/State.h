//===- State.h - between a session and its checkpoints -----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_STATE_H
#define CLEAVE_RUNTIME_TRAIN_STATE_H

#include "cleave/Session.h"
#include "runtime/io/Checkpoint.h"
#include "runtime/ranks/WholeTensors.h"

#include <list>

namespace cleave::runtime {

/// What a checkpoint holds, of a session whose rank has all of it whole, valid until it runs again.
/// The model's are what `load_state_dict(strict=True)` takes: parameters and buffers under all of
/// their names, without transient buffers; the loss's the same of the loss module; the optimizer's
/// its state as NAME.SLOT, and transient buffers that the program changes as buffer.NAME.
llvm::Expected<CheckpointViews> viewState(Session &session);

/// The same where ranks hold parts of it.
struct StateParts {
  /// What this rank writes. Of those who hold the same part, one does.
  CheckpointViews views;
  /// Where the parts of all ranks are; a tied parameter's names beyond the first are aliases.
  CheckpointParts parts;
  /// The views may point into them: a list never moves them.
  std::list<WholeTensor> assembled;
};

/// All ranks call it together. An error where a tensor is not determined by its parts.
llvm::Expected<StateParts> viewParts(Session &session);

/// Sets the session's parameters, buffers and optimizer state from a checkpoint; an error that
/// names the differences if it is another model's.
llvm::Error restore(Session &session, const Checkpoint &checkpoint);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STATE_H
