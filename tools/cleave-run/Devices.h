//===- Devices.h - where a program runs ----------------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_DEVICES_H
#define CLEAVE_TOOLS_CLEAVE_RUN_DEVICES_H

#include "runtime/device/DeviceCommunicator.h"
#include "runtime/device/OpenDevice.h"
#include "runtime/launch/RankEnvironment.h"

#include "llvm/Support/CommandLine.h"

namespace cleave::run {

/// The category of --device and its like.
extern llvm::cl::OptionCategory deviceCategory;

/// Loads what --device asks for, before LibTorch is used and before ranks are forked. Fails in one
/// line where this machine, this LibTorch or this build has no such device.
llvm::Error loadDevice();

/// Whether --nvtx is given.
bool namesRanges();

/// Whether NCCL is asked for, with one rank too: so its place in the order of streams can be
/// tested.
bool wantsNccl();

/// A communicator for tensors on `device`, as --device-communication says, complementing `world`,
/// which outlives it. All ranks call it together.
llvm::Expected<std::unique_ptr<runtime::Communicator>>
makeCommunicator(runtime::Communicator &world, const runtime::Device &device);

/// This rank's device: that of its number on the machine, or the only one. Null for the processor.
llvm::Expected<runtime::OwnedDevice> openDevice(const runtime::RankEnvironment &environment);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_DEVICES_H
