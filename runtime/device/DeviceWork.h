//===- DeviceWork.h - operations on devices' tensors in flight -----*- C++ -*-===//
//
// Private to DeviceCommunicator.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_DEVICE_DEVICEWORK_H
#define CLEAVE_RUNTIME_DEVICE_DEVICEWORK_H

#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace cleave::runtime {

/// The first line of what LibTorch throws, as an error.
template <typename Body> llvm::Error guardedByDevice(Body body) {
  llvm::Error error = guarded(body);
  if (!error)
    return error;
  std::string text = llvm::toString(std::move(error));
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 llvm::StringRef(text).split('\n').first.rtrim());
}

/// An operation of the backend. Waiting for it is for streams: what the host enqueues on the
/// current one afterwards runs after it.
class BackendWork final : public Work {
public:
  /// `work` may be null: the operation is on the stream it was enqueued on. `done` is reached when
  /// it is complete, where that is not the stream that goes on.
  BackendWork(Communicator &host, const Device &device, std::string text, uint64_t number,
              c10::intrusive_ptr<c10d::Work> work, std::optional<c10::Event> done)
      : host(host), device(device), text(std::move(text)), number(number), work(std::move(work)),
        done(std::move(done)) {}

  llvm::Error wait(std::optional<std::chrono::milliseconds>) override;
  bool isDone() override { return !work || work->isCompleted(); }

private:
  Communicator &host;
  const Device &device;
  std::string text;
  uint64_t number;
  c10::intrusive_ptr<c10d::Work> work;
  std::optional<c10::Event> done;
};

using StagedTensors = std::vector<at::Tensor>;

/// Copies `inputs` to the host, runs `start` on the copies and on memory for `outputs`, and copies
/// the outputs back when the operation has been waited for. `readsOutputs`: the operation reads
/// them too.
llvm::Expected<std::unique_ptr<Work>>
stage(const Device &device, StagedTensors inputs, StagedTensors outputs, bool readsOutputs,
      llvm::function_ref<llvm::Expected<std::unique_ptr<Work>>(StagedTensors &, StagedTensors &)>
          start);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_DEVICE_DEVICEWORK_H
