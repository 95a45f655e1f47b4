//===- State.h - between a session and its checkpoints -----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_STATE_H
#define CLEAVE_RUNTIME_TRAIN_STATE_H

#include "cleave/Session.h"
#include "runtime/exec/WholeTensors.h"
#include "runtime/io/Checkpoint.h"

#include <list>

namespace cleave::runtime {

/// Whole tensors: of an untyped program the session's own, valid until it runs again; else
/// assembled from the ranks' parts.
struct StateView {
  std::vector<TensorView> tensors;
  /// The views point into them: a list never moves them.
  std::list<WholeTensor> assembled;
};

/// Parameters and buffers under their state-dict names; a tied parameter once. All ranks of a typed
/// or scheduled program call it together; of a scheduled one, those of the first stages have it
/// all.
llvm::Expected<StateView> viewModel(Session &session);
/// Optimizer state as NAME.SLOT; likewise.
llvm::Expected<StateView> viewOptimizer(Session &session);

/// Sets the session's parameters, buffers and optimizer state from a checkpoint; an error that
/// names the differences if it is another model's.
llvm::Error restore(Session &session, const Checkpoint &checkpoint);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STATE_H
