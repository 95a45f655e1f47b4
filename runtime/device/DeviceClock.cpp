//===- DeviceClock.cpp - when a device comes to what it was given ---------===//

#include "runtime/device/DeviceClock.h"

#include <chrono>

using namespace cleave::runtime;

static int64_t steadyNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t DeviceClock::mark() {
  if (!device.hasStreams()) {
    times.push_back(steadyNs());
    return int64_t(times.size()) - 1;
  }
  if (marks.empty()) {
    device.synchronize();
    origin = steadyNs();
  }
  marks.push_back(*device.record(StreamKind::Compute, /*isTimed=*/true));
  return int64_t(marks.size()) - 1;
}

void DeviceClock::close() {
  if (marks.empty())
    return;
  marks.back().synchronize();
  for (const c10::Event &mark : marks)
    times.push_back(origin + int64_t(marks.front().elapsedTime(mark) * 1e6));
}
