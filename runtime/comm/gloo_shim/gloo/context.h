// The part of gloo/context.h that ProcessGroupGloo.hpp names (see ../README.md).

#ifndef CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_CONTEXT_H
#define CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_CONTEXT_H

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

#endif // CLEAVE_RUNTIME_COMM_GLOO_SHIM_GLOO_CONTEXT_H
