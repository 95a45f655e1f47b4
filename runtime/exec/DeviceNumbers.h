//===- DeviceNumbers.h - numbers that recorded kernels read ---------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_DEVICENUMBERS_H
#define CLEAVE_RUNTIME_EXEC_DEVICENUMBERS_H

#include "runtime/device/Device.h"

namespace cleave::runtime {

/// Numbers that a recorded kernel reads from the device and the host changes between replays.
class DeviceNumbers {
public:
  /// Nothing on the processor.
  DeviceNumbers(const Device &device, int64_t count);
  /// Sets number `index`, after the last replay has read it.
  void set(int64_t index, double value) { staged.mutable_data_ptr<float>()[index] = float(value); }
  /// Enqueues their way to the device.
  void send() { placed.copy_(staged, /*non_blocking=*/true); }
  /// Number `index` on the device: a tensor of f32 without dimensions.
  at::Tensor get(int64_t index) const { return placed.select(0, index); }

private:
  at::Tensor staged, placed;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_DEVICENUMBERS_H
