//===- DeviceWork.cpp - operations on devices' tensors in flight ---------------===//

#include "runtime/device/DeviceWork.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::runtime;

llvm::Error BackendWork::wait(std::optional<std::chrono::milliseconds>) {
  llvm::Error error = guardedByDevice([&] {
    if (work)
      work->wait();
    device.wait(done, StreamKind::Compute);
  });
  work.reset();
  done.reset();
  if (error)
    return host.explainFailure(text, number, llvm::toString(std::move(error)));
  return llvm::Error::success();
}

namespace {
/// An operation of the host's communicator on copies.
class StagedWork final : public Work {
public:
  StagedWork(std::unique_ptr<Work> work, StagedTensors inputs, StagedTensors outputs,
             StagedTensors results)
      : work(std::move(work)), inputs(std::move(inputs)), outputs(std::move(outputs)),
        results(std::move(results)) {}

  llvm::Error wait(std::optional<std::chrono::milliseconds> timeout) override {
    if (llvm::Error error = work->wait(timeout))
      return error;
    return guardedByDevice([&] {
      c10::InferenceMode inferenceMode;
      for (auto [result, output] : llvm::zip_equal(results, outputs))
        result.copy_(output, /*non_blocking=*/true);
      results.clear();
      outputs.clear();
    });
  }
  bool isDone() override { return work->isDone(); }
  std::optional<int64_t> completedNs() override { return work->completedNs(); }

private:
  std::unique_ptr<Work> work;
  StagedTensors inputs, outputs, results;
};
} // namespace

llvm::Expected<std::unique_ptr<Work>> cleave::runtime::stage(
    const Device &device, StagedTensors inputs, StagedTensors outputs, bool readsOutputs,
    llvm::function_ref<llvm::Expected<std::unique_ptr<Work>>(StagedTensors &, StagedTensors &)>
        start) {
  StagedTensors results = outputs;
  llvm::Error error = guardedByDevice([&] {
    c10::InferenceMode inferenceMode;
    auto toHost = [&](at::Tensor &tensor, bool isRead) {
      at::Tensor staged = device.allocateStaging(*typeOf(tensor));
      if (isRead)
        staged.copy_(tensor);
      tensor = std::move(staged);
    };
    for (at::Tensor &tensor : inputs)
      toHost(tensor, true);
    for (at::Tensor &tensor : outputs)
      toHost(tensor, readsOutputs);
  });
  if (error)
    return error;
  llvm::Expected<std::unique_ptr<Work>> work = start(inputs, outputs);
  if (!work)
    return work.takeError();
  return std::make_unique<StagedWork>(std::move(*work), std::move(inputs), std::move(outputs),
                                      std::move(results));
}
