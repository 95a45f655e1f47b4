// The part of gloo/transport/device.h that ProcessGroupGloo.hpp names (see ../../README.md).
#pragma once

namespace gloo::transport {
class Device;
} // namespace gloo::transport
