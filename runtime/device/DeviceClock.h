//===- DeviceClock.h - when a device comes to what it was given -*- C++ -*-===//
//
// The host is ahead of a device: when something happened there only the device knows. Marks are
// events with times, read when all of them have passed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_DEVICECLOCK_H
#define CLEAVE_RUNTIME_DEVICE_DEVICECLOCK_H

#include "runtime/device/Device.h"

namespace cleave::runtime {

class DeviceClock {
public:
  explicit DeviceClock(const Device &device) : device(device) {}

  /// Marks the place that the compute stream has reached; its number. May throw.
  int64_t mark();
  /// Waits until the device has passed all marks. May throw.
  void close();
  /// The time of a mark, once closed: nanoseconds of the steady clock.
  int64_t time(int64_t mark) const { return times[mark]; }
  /// Forgets all marks.
  void clear() {
    marks.clear();
    times.clear();
  }
  bool isEmpty() const { return marks.empty(); }

private:
  const Device &device;
  /// The first one begins when the host marks it: the device has nothing to do then.
  int64_t origin = 0;
  std::vector<c10::Event> marks;
  std::vector<int64_t> times;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICECLOCK_H
