//===- State.h - between a session and its checkpoints -----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_STATE_H
#define CLEAVE_RUNTIME_TRAIN_STATE_H

#include "cleave/Session.h"
#include "runtime/io/Checkpoint.h"
#include "runtime/ranks/WholeTensors.h"

#include <list>

namespace cleave::runtime {

/// What a checkpoint holds, as whole tensors: of an untyped program the session's own, valid until
/// it runs again; else assembled from the ranks' parts.
struct StateView {
  /// What `load_state_dict(strict=True)` takes: parameters and buffers under all of their names,
  /// without transient buffers.
  std::vector<TensorView> model;
  /// The same of the loss module.
  std::vector<TensorView> loss;
  /// Optimizer state as NAME.SLOT, and transient buffers that the program changes as buffer.NAME.
  std::vector<TensorView> optimizer;
  /// The views point into them: a list never moves them.
  std::list<WholeTensor> assembled;
};

/// All ranks of a typed or scheduled program call it together; of a scheduled one, those of the
/// first stages have it all.
llvm::Expected<StateView> viewState(Session &session);

/// Sets the session's parameters, buffers and optimizer state from a checkpoint; an error that
/// names the differences if it is another model's.
llvm::Error restore(Session &session, const Checkpoint &checkpoint);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STATE_H
