//===- ActionReporter.h - tells an observer when actions ran -------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_STEP_ACTIONREPORTER_H
#define CLEAVE_RUNTIME_STEP_ACTIONREPORTER_H

#include "runtime/device/DeviceClock.h"
#include "runtime/step/ActionEvent.h"

namespace cleave::runtime {

/// Calls `SessionOptions::onAction`. On a device times are marks, known when it has passed them:
/// events wait there for `flush`. Without an observer no clock is read.
class ActionReporter {
public:
  using Observer = std::function<void(const ActionEvent &)>;
  ActionReporter(Observer observer, const Device &device);

  bool isOn() const { return bool(observer); }
  /// The time now, for an event's fields: of the steady clock, or the number of a mark. May throw.
  int64_t now();
  /// Hands an action on, whose times are what `now` returned.
  void report(const ActionEvent &event);
  /// Hands on the events that wait for their marks.
  llvm::Error flush();

private:
  Observer observer;
  std::optional<DeviceClock> clock;
  /// Events whose times are marks, with their texts.
  std::vector<std::pair<ActionEvent, std::string>> marked;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_STEP_ACTIONREPORTER_H
