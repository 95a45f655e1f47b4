//===- DeviceNumbers.cpp - numbers that recorded kernels read -----------------===//

#include "runtime/exec/DeviceNumbers.h"

using namespace cleave::runtime;

DeviceNumbers::DeviceNumbers(const Device &device, int64_t count) {
  if (device.isHost())
    return;
  staged = device.allocateStaging({DType::F32, {count}});
  placed = device.allocate({DType::F32, {count}});
}
