//===- Environment.h - what a process runs on and with -------------*- C++ -*-===//
//
// The versions, the processor and the device of a process: shown by `cleave-run --environment`, and
// compared among ranks before they begin.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ENVIRONMENT_ENVIRONMENT_H
#define CLEAVE_RUNTIME_ENVIRONMENT_ENVIRONMENT_H

#include "runtime/comm/SameProgram.h"

namespace cleave::runtime {

/// What a process computes on besides its processor. Empty strings if there is no such thing.
struct DeviceDescription {
  std::string kind = "cpu";  ///< "cuda"
  std::string chip;          ///< "NVIDIA H100 (sm_90)"
  std::string driver;        ///< "13.0"
  std::string communication; ///< "NCCL 2.28.9"
  std::string neural;        ///< "cuDNN 9.19.0"
};

/// The device that this process uses, once it is known: from then on part of its environment.
void setDeviceDescription(DeviceDescription device);

/// Whether that is the processor.
bool usesProcessor();

/// "2.11.0+cu130": of the LibTorch that is loaded, as its files say; as compiled with where they do
/// not. Calls nothing of LibTorch.
std::string getTorchVersion();
/// The directory with LibTorch's libraries.
std::string getTorchDirectory();

/// An error unless the LibTorch that is loaded has the major and minor number of the one that
/// Cleave was compiled with.
llvm::Error checkTorchVersion();
/// The check itself: "2.11.0" and "2.11.0+cu130".
llvm::Error checkTorchVersion(llvm::StringRef compiled, llvm::StringRef loaded,
                              llvm::StringRef directory);

/// What ranks compare. Call it when threads and device are chosen.
std::vector<EnvironmentFact> getEnvironment();
/// This machine's name.
std::string getHostName();

/// All of it as text, a line for each, with what launchers and users have set.
std::string describeEnvironment();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ENVIRONMENT_ENVIRONMENT_H
