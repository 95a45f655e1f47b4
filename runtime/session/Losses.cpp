//===- Losses.cpp - the losses of a session's microbatches --------------------===//

#include "runtime/session/Losses.h"
#include "runtime/exec/Compare.h"
#include "runtime/ranks/WholeTensors.h"
#include "runtime/step/StepRunner.h"

#include <chrono>
#include <limits>
#include <thread>

using namespace cleave::runtime;

Losses::Losses(StepContext &context) : context(context) {
  for (auto [index, value] : llvm::enumerate(context.program.results(Phase::Microbatch)))
    if (value.role == RoleKind::Loss)
      place = index;
}

/// The loss among a microbatch's results; null if there is none.
const at::Tensor *Losses::find() const {
  if (!place || !context.state.results[*place].isTensor())
    return nullptr;
  return &context.state.results[*place].toTensor();
}

double Losses::loss() const {
  const at::Tensor *loss = find();
  return loss ? loss->item<double>() : std::numeric_limits<double>::quiet_NaN();
}

/// The number of which each rank holds `part`.
llvm::Expected<double> Losses::assemble(const ConstTensorRef &part) const {
  const ValueInfo &value = context.program.results(Phase::Microbatch)[*place];
  if (value.placements.empty())
    return toNumber(part);
  llvm::Expected<WholeTensor> whole = cleave::runtime::assemble(value, part, *context.ranks);
  if (!whole)
    return whole.takeError();
  return toNumber(whole->ref());
}

llvm::Expected<double> Losses::wholeLoss() const {
  const at::Tensor *loss = find();
  if (!loss)
    return std::numeric_limits<double>::quiet_NaN();
  at::Tensor part;
  if (llvm::Error error = guarded([&] { part = context.device.toHost(*loss); }))
    return error;
  return assemble(refTo(part));
}

llvm::Error Losses::note(const StepRunner &runner) {
  if (at::Tensor staged = runner.stagedLoss(); staged.defined()) {
    noted.push_back(std::move(staged));
    return llvm::Error::success();
  }
  const at::Tensor *loss = find();
  if (!loss || context.device.isHost()) {
    llvm::Expected<double> whole = wholeLoss();
    if (!whole)
      return whole.takeError();
    known.push_back(*whole);
    return llvm::Error::success();
  }
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    at::Tensor part = context.device.allocateStaging(*typeOf(*loss));
    part.copy_(*loss, /*non_blocking=*/true);
    noted.push_back(std::move(part));
  });
}

llvm::Expected<std::vector<double>> Losses::take() {
  std::vector<double> losses = std::exchange(known, {});
  std::vector<at::Tensor> parts = std::exchange(noted, {});
  if (!parts.empty())
    if (llvm::Error error = awaitDevice())
      return error;
  for (const at::Tensor &part : parts) {
    llvm::Expected<double> loss = assemble(refTo(part));
    if (!loss)
      return loss.takeError();
    losses.push_back(*loss);
  }
  return losses;
}

llvm::Error Losses::awaitDevice() const {
  if (!context.device.hasStreams())
    return llvm::Error::success();
  using Clock = std::chrono::steady_clock;
  Communicator *world = context.ranks->communicator();
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    std::optional<c10::Event> done = context.device.record(StreamKind::Compute);
    if (!world || world->size() == 1)
      return done->synchronize();
    // What is stuck in an operation with a lost peer never completes.
    auto start = Clock::now();
    std::chrono::microseconds pause(20);
    while (!done->query()) {
      failure = world->checkPeers();
      if (!failure && Clock::now() - start > world->timeout())
        failure = world->explainStuck();
      if (failure)
        return;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(500));
    }
  });
  return llvm::joinErrors(std::move(failure), std::move(thrown));
}
