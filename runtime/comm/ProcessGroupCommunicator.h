//===- ProcessGroupCommunicator.h - Ranks of a process group ----*- C++ -*-===//
//
// The ranks of a process group that is there already: that of `torch.distributed` in a Python
// process. Nothing is opened here, no thread outlives an operation, and no signal is touched. What
// the group does not tell, such as which rank is lost, no error can say.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_PROCESSGROUPCOMMUNICATOR_H
#define CLEAVE_RUNTIME_COMM_PROCESSGROUPCOMMUNICATOR_H

#include "runtime/comm/Communicator.h"

#include <functional>

namespace cleave::runtime {

/// What the owner of the process group does for a communicator.
struct ProcessGroupHost {
  /// Makes a group of these ranks of the communicator's first group, which alone call it, in one
  /// order; returns its name in c10d's registry.
  std::function<llvm::Expected<std::string>(llvm::ArrayRef<int>)> makeGroup;
  /// Called every now and then while an operation is waited for: an error ends the wait.
  std::function<llvm::Error()> poll;
};

/// The ranks of the group that c10d's registry has under `groupName`, on tensors of the processor.
/// Operations that take longer than `timeout` fail.
llvm::Expected<std::unique_ptr<Communicator>> joinProcessGroup(const std::string &groupName,
                                                               std::chrono::milliseconds timeout,
                                                               ProcessGroupHost host);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESSGROUPCOMMUNICATOR_H
