//===- ActionEvent.h - when each action of a schedule ran ---------*- C++ -*-===//
//
// What a profile or a trace of a pipeline is made of. A session that runs a schedule calls
// `SessionOptions::onAction` on each rank for every action of its list, members of a group one by
// one, when the action is complete: sends and receives when the rank has learned that they are.
// Times are of the steady clock; `wallTime` (runtime/io/Trace.h) makes those of several ranks
// comparable. Without an observer no clock is read.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_STEP_ACTIONEVENT_H
#define CLEAVE_RUNTIME_STEP_ACTIONEVENT_H

#include "lib/schedule/model/Action.h"

namespace cleave::runtime {

struct ActionEvent {
  llvm::StringRef text; ///< "F2.0", "sendF2.0", "reduce2.0", "step2"
  schedule::Action action;
  int64_t step = 0;     ///< in the run, from 1
  int64_t position = 0; ///< in the rank's list, from 0; members of a group share it
  /// When the rank came to the action.
  int64_t beginNs = 0;
  /// When it had what the action waits for: of a computation, the input that another rank sends.
  /// Until then the rank was idle. `beginNs` where nothing is waited for.
  int64_t readyNs = 0;
  /// When a computation ended; when a transfer was known to be complete, which is asked when its
  /// value is needed, or, for sends, at the end of the step's list.
  int64_t endNs = 0;
  int64_t bytes = 0; ///< bytes that a transfer moved
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_ACTIONEVENT_H
