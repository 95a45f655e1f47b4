//===- Driver.h - CUDA's driver, found when the program runs -------*- C++ -*-===//
//
// Loads modules and launches kernels. Nothing links the driver: programs are built and started
// if there is none.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_CUDA_DRIVER_H
#define CLEAVE_RUNTIME_CUDA_DRIVER_H

#include <cuda.h>

#include <string>

namespace cleave::cuda {

struct Driver {
  decltype(&::cuInit) init;
  decltype(&::cuDriverGetVersion) getVersion;
  decltype(&::cuDeviceGetCount) getDeviceCount;
  decltype(&::cuModuleLoadData) loadModule;
  decltype(&::cuModuleUnload) unloadModule;
  decltype(&::cuModuleGetFunction) getFunction;
  decltype(&::cuFuncSetAttribute) setAttribute;
  decltype(&::cuLaunchKernel) launch;
  decltype(&::cuGetErrorString) getErrorString;

  /// Null if this machine has none that is complete; `reason` then says why.
  static const Driver *find(std::string &reason);
  /// "out of memory (error 2)"
  std::string describe(CUresult result) const;
};

/// "13.0" of 13000.
std::string describeVersion(int version);

} // namespace cleave::cuda

#endif // CLEAVE_RUNTIME_CUDA_DRIVER_H
