// The part of gloo/transport/device.h that ProcessGroupGloo.hpp names (see ../../README.md).

#ifndef CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_TRANSPORT_DEVICE_H
#define CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_TRANSPORT_DEVICE_H

namespace gloo::transport {
class Device;
} // namespace gloo::transport

#endif // CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_TRANSPORT_DEVICE_H
