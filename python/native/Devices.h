//===- Devices.h - the devices that a Python process computes on ----*- C++ -*-===//
//
// Tensors of Python's are where Python has put them, and its streams are its own: sessions compute
// on a stream of theirs, ordered after what Python has enqueued before a call, and before what it
// enqueues afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PYTHON_NATIVE_DEVICES_H
#define CLEAVE_PYTHON_NATIVE_DEVICES_H

#include "runtime/device/Device.h"

namespace cleave::python {

/// Device `index` of `kind` ("cuda"), one for all sessions of the process; null for "cpu".
/// `plugin`: the plugin's file; empty: where cleave-run looks for it.
llvm::Expected<runtime::Device *> findDevice(const std::string &kind, int index,
                                             const std::string &plugin);

/// While it lives, the calling thread computes on the device's own stream, after what it had
/// enqueued on its current one, which goes on after what is enqueued meanwhile. Nothing where the
/// device is null or has no streams.
class DeviceTurn {
public:
  explicit DeviceTurn(const runtime::Device *device);
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn &) = delete;

private:
  const runtime::Device *device;
  std::optional<c10::Device> deviceBefore;
  std::optional<c10::Stream> streamBefore;
};

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_DEVICES_H
