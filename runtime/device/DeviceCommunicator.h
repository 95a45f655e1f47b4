//===- DeviceCommunicator.h - communication of tensors on devices --*- C++ -*-===//
//
// Complements a communicator of the host (Gloo), which keeps what is said about tensors on the host
// and what ranks control each other by: agreement, bytes, barriers, and naming who is lost. Tensors
// on the device take one of two ways:
//
// - the plugin's backend (NCCL), where every rank has a device of its own. Its operations run on
//   the current stream, in the order of the program. Called on the compute stream, a collective
//   runs on the communication stream after what was enqueued before it, and `wait` puts what
//   follows after it; called on the communication stream, by a program that says itself what waits
//   for what, it runs there and `wait` does nothing. Neither blocks the host.
// - through the host, where ranks share a device, which the backend does not allow: copied to
//   page-locked memory, sent by the host's communicator, and copied back.
//
// Sends and receives of the backend match in the order in which they are issued between two ranks
// in one direction, not by tag. Each direction has communicators of its own, so that a send and a
// receive that both ends issue in different orders do not wait for each other.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_DEVICECOMMUNICATOR_H
#define CLEAVE_RUNTIME_DEVICE_DEVICECOMMUNICATOR_H

#include "runtime/comm/Communicator.h"

namespace cleave::runtime {

class Device;

/// How tensors on devices are exchanged.
enum class DeviceMedium : uint8_t { Backend, ThroughHost };

/// A communicator for tensors on `device` and on the host, complementing `host`; both outlive it.
/// All ranks call it together. Without `medium` it is the backend where no two ranks have the same
/// device; a backend that is asked for where ranks share one is refused.
llvm::Expected<std::unique_ptr<Communicator>>
makeDeviceCommunicator(Communicator &host, const Device &device,
                       std::optional<DeviceMedium> medium = std::nullopt);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICECOMMUNICATOR_H
