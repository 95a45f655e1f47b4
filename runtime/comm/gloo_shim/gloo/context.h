// The part of gloo/context.h that ProcessGroupGloo.hpp names (see ../README.md).
#pragma once

#include <chrono>

namespace gloo {
class Context {
public:
  void setTimeout(std::chrono::milliseconds timeout);
};
namespace transport {
class UnboundBuffer;
} // namespace transport
} // namespace gloo
