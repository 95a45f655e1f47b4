//===- ActionReporter.cpp - tells an observer when actions ran ----------------===//

#include "runtime/step/ActionReporter.h"

#include <chrono>

using namespace cleave::runtime;

ActionReporter::ActionReporter(Observer observer, const Device &device)
    : observer(std::move(observer)) {
  if (isOn() && !device.isHost())
    clock.emplace(device);
}

int64_t ActionReporter::now() {
  if (clock)
    return clock->mark();
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ActionReporter::report(const ActionEvent &event) {
  if (clock)
    marked.emplace_back(event, event.text);
  else
    observer(event);
}

llvm::Error ActionReporter::flush() {
  if (!clock)
    return llvm::Error::success();
  if (llvm::Error error = guarded([&] { clock->close(); }))
    return error;
  for (auto &[event, text] : marked) {
    event.text = text;
    event.beginNs = clock->time(event.beginNs);
    event.readyNs = clock->time(event.readyNs);
    event.endNs = clock->time(event.endNs);
    observer(event);
  }
  marked.clear();
  clock->clear();
  return llvm::Error::success();
}
