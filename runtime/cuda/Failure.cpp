//===- Failure.cpp - errors of the CUDA plugin ---------------------------------===//

#include "runtime/cuda/Failure.h"

#include <c10/util/Exception.h>

static thread_local std::string noted;

int cleave::cuda::fail(std::string reason) {
  noted = reason.substr(0, reason.find('\n'));
  return 1;
}

const char *cleave::cuda::lastError() {
  return noted.c_str();
}

std::string cleave::cuda::describe(const std::exception &exception) {
  const auto *error = dynamic_cast<const c10::Error *>(&exception);
  return error ? error->what_without_backtrace() : exception.what();
}
