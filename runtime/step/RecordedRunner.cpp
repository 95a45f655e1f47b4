//===- RecordedRunner.cpp - runs a step as graphs of the device ---------------===//

#include "runtime/step/RecordedRunner.h"
#include "dialects/dist/Dist.h"
#include "runtime/exec/RandomPhilox.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"
#include "runtime/program/RateSchedule.h"

using namespace cleave::runtime;

std::string cleave::runtime::explainNoGraphs(const StepContext &context) {
  const SessionOptions &options = context.options;
  if (context.device.isHost() || !context.device.plugin()->hasGraphs())
    return "this device does not support graphs";
  if (context.stages.isScheduled())
    return "schedule '" + context.program.schedule()->name +
           "' starts transfers between its actions";
  if (options.onOp || options.onAction)
    return "ops or actions are timed (--trace, --profile)";
  if (options.check.isOn)
    return "--check compares values on the host";
  if (options.poisonsDeadMemory)
    return "--check memory overwrites dead memory between ops";
  if (options.keepOutputs)
    return "the outputs of each microbatch are kept";
  if (const Communicator *world = context.ranks->communicator(); world && !world->isRecordable())
    return "ranks exchange values through the host";
  if (context.lossScale)
    return "the scale of the loss, and whether a step is skipped, is decided on the host";
  // Kernels take them as plain numbers, which a graph would keep.
  if (changesHyperparameters(context.program))
    return "a momentum or beta of the optimizer changes from step to step";
  if (context.program.impl().contains<cleave::dist::RaggedAllToAllOp>())
    return "ranks exchange as many rows as data say (dist.ragged_all_to_all)";
  if (context.program.impl().contains<cleave::dist::OffloadOp>())
    return "values are copied to host memory, which is allocated as the step runs (dist.offload)";
  if (computesNumbers(context.program))
    return "the optimizer's step computes numbers on the host";
  auto any = [](mlir::Operation *) { return true; };
  if (mlir::Operation *op = findRandomOp(context.program, any);
      op && !context.services.drawsOnDevice)
    return (op->getName().getStringRef() + " draws its numbers on the host").str();
  return "";
}

RecordedRunner::RecordedRunner(StepContext &context)
    : context(context), sequential(context, /*offsetsAreAdded=*/context.services.drawsOnDevice),
      stepGraph(context.device), microbatchGraph(context.device), updateGraph(context.device) {
  int64_t microbatches = context.options.microbatches;
  context.state.stagedInputs.setSlots(microbatches);
  for (const ValueInfo &value : context.program.results(Phase::Microbatch))
    if (value.role == RoleKind::Loss)
      for (int64_t index = 0; index < microbatches; ++index)
        losses.push_back(context.device.allocateStaging(value.type));
  const BoundPhases &phases = context.phases;
  for (const BoundPhases::List *list : {&phases.unshard, &phases.microbatch, &phases.reduce})
    for (const std::unique_ptr<BoundPhase> &bound : *list)
      for (const Place &place : bound->results)
        if (place.kind == Place::Weight)
          replacedWeights.push_back(place.index);
}

at::Tensor RecordedRunner::stagedLoss() const {
  return losses.empty() ? at::Tensor() : losses[doneMicrobatch];
}

//===----------------------------------------------------------------------===//
// What is recorded
//===----------------------------------------------------------------------===//

/// A recorded step reads and writes where it did when it was recorded: values that functions
/// reallocate go back to where they were.
void RecordedRunner::restorePlaces(llvm::ArrayRef<at::Tensor> before) {
  c10::InferenceMode inferenceMode;
  std::vector<at::Tensor> &weights = context.state.weights;
  for (auto [index, place] : llvm::zip_equal(replacedWeights, before)) {
    if (weights[index].data_ptr() == place.data_ptr())
      continue;
    at::Tensor(place).copy_(weights[index]);
    weights[index] = place;
  }
}

llvm::Error RecordedRunner::enqueueMicrobatches(int64_t step) {
  StepState &state = context.state;
  std::vector<at::Tensor> before;
  if (context.device.isRecording())
    for (size_t index : replacedWeights)
      before.push_back(state.weights[index]);
  for (int64_t index = 0; index < context.options.microbatches; ++index) {
    state.stagedInputs.select(index);
    if (llvm::Error error = sequential.runMicrobatch(step, index))
      return error;
    if (losses.empty())
      continue;
    llvm::Error error = guarded([&] {
      c10::InferenceMode inferenceMode;
      for (auto [place, value] : llvm::enumerate(context.program.results(Phase::Microbatch)))
        if (value.role == RoleKind::Loss)
          losses[index].copy_(state.results[place].toTensor(), /*non_blocking=*/true);
    });
    if (error)
      return error;
  }
  if (!context.device.isRecording())
    return llvm::Error::success();
  return guarded([&] { restorePlaces(before); });
}

llvm::Error RecordedRunner::enqueueUpdate(int64_t step) {
  auto addresses = [&] {
    std::vector<const void *> list;
    for (const std::vector<at::Tensor> *tensors :
         {&context.state.weights, &context.state.optimizerStates})
      for (const at::Tensor &tensor : *tensors)
        list.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
    return list;
  };
  std::vector<const void *> before = addresses();
  if (llvm::Error error = sequential.runUpdate(step))
    return error;
  if (context.device.isRecording() && before != addresses())
    return makeError("the update reallocates a parameter or an optimizer state");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Before and after a graph
//===----------------------------------------------------------------------===//

llvm::Error RecordedRunner::prepare(int64_t step, MicrobatchCallback fill) {
  if (llvm::Error error = context.state.closeViews())
    return error;
  for (int64_t index = 0; index < context.options.microbatches; ++index) {
    context.state.stagedInputs.select(index);
    if (llvm::Error error = fill(index))
      return error;
  }
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    if (context.services.drawsOnDevice)
      context.state.rngOffset.fill_(context.randomOffset(step, 0));
  });
}

llvm::Error RecordedRunner::prepareUpdate(int64_t step) {
  context.state.setStep(step);
  return guarded([&] {
    // The last replay has read its own.
    if (updateDone)
      updateDone->synchronize();
    for (std::unique_ptr<BoundPhase> &bound : context.phases.update) {
      for (auto [index, place] : llvm::enumerate(bound->arguments))
        if (place.kind == Place::Step)
          bound->executors.front()->argument(index) = context.state.step;
      bound->executors.front()->refresh();
    }
  });
}

llvm::Error RecordedRunner::finish(MicrobatchCallback done) {
  if (llvm::Error error = guarded([&] { context.state.stagedInputs.noteSent(); }))
    return error;
  for (int64_t index = 0; index < context.options.microbatches; ++index) {
    doneMicrobatch = index;
    if (llvm::Error error = done(index))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error RecordedRunner::noteUpdate() {
  return guarded([&] { updateDone = context.device.record(StreamKind::Compute); });
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

llvm::Error RecordedRunner::runMicrobatch(int64_t step, int64_t index) {
  return sequential.runMicrobatch(step, index);
}

llvm::Error RecordedRunner::runMicrobatches(int64_t step, MicrobatchCallback fill,
                                            MicrobatchCallback done) {
  if (llvm::Error error = prepare(step, fill))
    return error;
  bool isReplay = microbatchGraph.isRecorded();
  auto body = [&] {
    llvm::Error error = enqueueMicrobatches(step);
    // The gradients among them, too, which the update's graph reads.
    if (!error && context.device.isRecording())
      recordedResults = context.state.results;
    return error;
  };
  if (llvm::Error error = microbatchGraph.run(body))
    return error;
  if (isReplay)
    context.state.results = recordedResults;
  return finish(done);
}

llvm::Error RecordedRunner::runUpdate(int64_t step) {
  if (llvm::Error error = context.state.closeViews())
    return error;
  for (const std::unique_ptr<BoundPhase> &bound : context.phases.update)
    if (llvm::Error error = checkGradients(context, *bound, step))
      return error;
  if (updateGraph.isRecorded()) {
    if (llvm::Error error = prepareUpdate(step))
      return error;
    for (c10::IValue &value : context.state.results)
      value = c10::IValue();
  }
  if (llvm::Error error = updateGraph.run([&] { return enqueueUpdate(step); }))
    return error;
  return noteUpdate();
}

llvm::Error RecordedRunner::runStep(int64_t step, MicrobatchCallback fill,
                                    MicrobatchCallback done) {
  if (llvm::Error error = prepare(step, fill))
    return error;
  bool isReplay = stepGraph.isRecorded();
  if (isReplay)
    if (llvm::Error error = prepareUpdate(step))
      return error;
  auto body = [&]() -> llvm::Error {
    if (llvm::Error error = enqueueMicrobatches(step))
      return error;
    if (llvm::Error error = enqueueUpdate(step))
      return error;
    if (context.device.isRecording())
      recordedResults = context.state.results;
    return llvm::Error::success();
  };
  if (llvm::Error error = stepGraph.run(body))
    return error;
  if (isReplay)
    context.state.results = recordedResults;
  if (llvm::Error error = noteUpdate())
    return error;
  return finish(done);
}
