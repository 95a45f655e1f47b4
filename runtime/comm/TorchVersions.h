//===- TorchVersions.h - where versions of LibTorch differ ---------*- C++ -*-===//
//
// The one place for what one version calls otherwise than another (docs/install.md).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_TORCHVERSIONS_H
#define CLEAVE_RUNTIME_COMM_TORCHVERSIONS_H

#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/headeronly/version.h>

namespace cleave::runtime {

/// A sum of what each rank has times `factor`.
template <typename Factor> c10d::ReduceOp makePremultipliedSum(const Factor &factor) {
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 11
  return c10d::makeNCCLPreMulSum(factor);
#else
  return c10d::makePreMulSum(factor);
#endif
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_TORCHVERSIONS_H
