//===- Failure.h - errors of the CUDA plugin -----------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_CUDA_FAILURE_H
#define CLEAVE_RUNTIME_CUDA_FAILURE_H

#include <exception>
#include <string>

namespace cleave::cuda {

/// Notes why a call of this thread failed, one line of it, and returns what the call returns.
int fail(std::string reason);
/// What was noted last.
const char *lastError();
/// The part of an exception's text that concerns the user.
std::string describe(const std::exception &exception);

/// Runs a call's body, which may throw.
template <typename Body> int guarded(Body body) {
  try {
    body();
    return 0;
  } catch (const std::exception &exception) {
    return fail(describe(exception));
  }
}

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_FAILURE_H
