//===- SessionGraphs.cpp - steps of a session as graphs of its device -------------===//

#include "runtime/exec/RandomPhilox.h"
#include "runtime/pipeline/PipelineRunner.h"
#include "runtime/session/SessionImpl.h"

using namespace cleave::runtime;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// The first random op of the program that `matches`; null where there is none.
static mlir::Operation *findRandomOp(const Program &program,
                                     llvm::function_ref<bool(mlir::Operation *)> matches) {
  for (mlir::func::FuncOp function : program.impl().functions.getFunctions())
    for (mlir::Operation &op : function.getOps())
      if (op.getName().getStringRef().starts_with("aten.rng_") && matches(&op))
        return &op;
  return nullptr;
}

bool SessionImpl::canDrawOnDevice() const {
  return !device->isHost() && device->plugin()->canDraw() &&
         !findRandomOp(*program, [](mlir::Operation *op) { return !isPhilox(op); });
}

std::string SessionImpl::explainNoGraphs() const {
  if (device->isHost() || !device->plugin()->hasGraphs())
    return "this device has no graphs";
  if (stages.isScheduled())
    return "schedule '" + program->schedule()->name + "' starts transfers between its actions";
  if (options.onOp || options.onAction)
    return "ops or actions are timed (--trace, --profile)";
  if (options.check.isOn)
    return "--check compares values on the host";
  if (options.poisonsDeadMemory)
    return "--check memory overwrites dead memory between ops";
  if (options.keepOutputs)
    return "the outputs of each microbatch are kept";
  if (const Communicator *world = ranks->communicator(); world && !world->isRecordable())
    return "ranks exchange values through the host";
  if (mlir::Operation *op = findRandomOp(*program, [](mlir::Operation *) { return true; });
      op && !services.drawsOnDevice)
    return (op->getName().getStringRef() + " draws its numbers on the host").str();
  return "";
}

void SessionImpl::setUpGraphs() {
  if (!options.recordGraphs)
    return;
  graphRefusal = explainNoGraphs();
  if (!graphRefusal.empty())
    return;
  stepGraph.emplace(*device);
  microbatchGraph.emplace(*device);
  updateGraph.emplace(*device);
  stagedInputs.setSlots(options.microbatches);
  for (const ValueInfo &value : program->results(Phase::Microbatch))
    if (value.role == RoleKind::Loss)
      for (int64_t index = 0; index < options.microbatches; ++index)
        recordedLosses.push_back(device->allocateStaging(value.type));
  auto note = [&](const std::vector<std::unique_ptr<BoundPhase>> &phases) {
    for (const std::unique_ptr<BoundPhase> &bound : phases)
      for (const Place &place : bound->results)
        if (place.kind == Place::Weight)
          replacedWeights.push_back(place.index);
  };
  note(unshard);
  note(microbatch);
  note(reduce);
}

/// A recorded step reads and writes where it did when it was recorded: values that functions make
/// anew go back to where they were.
void SessionImpl::restorePlaces(llvm::ArrayRef<at::Tensor> before) {
  c10::InferenceMode inferenceMode;
  for (auto [index, place] : llvm::zip_equal(replacedWeights, before)) {
    if (weights[index].data_ptr() == place.data_ptr())
      continue;
    at::Tensor(place).copy_(weights[index]);
    weights[index] = place;
  }
}

llvm::Error SessionImpl::prepareRecorded(int64_t stepNumber, MicrobatchCallback fill) {
  for (int64_t index = 0; index < options.microbatches; ++index) {
    stagedInputs.select(index);
    if (llvm::Error error = fill(index))
      return error;
  }
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    if (services.drawsOnDevice)
      rngOffset.fill_(randomOffset(stepNumber, 0));
  });
}

llvm::Error SessionImpl::enqueueMicrobatches(int64_t stepNumber) {
  std::vector<at::Tensor> before;
  if (device->isRecording())
    for (size_t index : replacedWeights)
      before.push_back(weights[index]);
  for (int64_t index = 0; index < options.microbatches; ++index) {
    stagedInputs.select(index);
    if (llvm::Error error = runMicrobatch(stepNumber, index))
      return error;
    if (recordedLosses.empty())
      continue;
    llvm::Error error = guarded([&] {
      c10::InferenceMode inferenceMode;
      for (auto [place, value] : llvm::enumerate(program->results(Phase::Microbatch)))
        if (value.role == RoleKind::Loss)
          recordedLosses[index].copy_(results[place].toTensor(), /*non_blocking=*/true);
    });
    if (error)
      return error;
  }
  if (!device->isRecording())
    return llvm::Error::success();
  return guarded([&] { restorePlaces(before); });
}

llvm::Error SessionImpl::enqueueUpdate(int64_t stepNumber) {
  auto addresses = [&] {
    std::vector<const void *> list;
    for (const std::vector<at::Tensor> *tensors : {&weights, &optimizerStates})
      for (const at::Tensor &tensor : *tensors)
        list.push_back(tensor.defined() ? tensor.const_data_ptr() : nullptr);
    return list;
  };
  std::vector<const void *> before = addresses();
  MicrobatchState none;
  for (std::unique_ptr<BoundPhase> &bound : update) {
    if (llvm::Error error = checkGradients(*bound, stepNumber))
      return error;
    if (llvm::Error error = runPhase(*bound, none))
      return error;
  }
  if (device->isRecording() && before != addresses())
    return makeError("the update gives a parameter or a state new memory");
  return llvm::Error::success();
}

/// Writes the numbers that a recorded update reads.
llvm::Error SessionImpl::prepareRecordedUpdate(int64_t stepNumber) {
  *step.mutable_data_ptr<float>() = static_cast<float>(stepNumber);
  return guarded([&] {
    // The last replay has read its own.
    if (updateDone)
      updateDone->synchronize();
    for (std::unique_ptr<BoundPhase> &bound : update) {
      for (auto [index, place] : llvm::enumerate(bound->arguments))
        if (place.kind == Place::Step)
          bound->executors.front()->argument(index) = step;
      bound->executors.front()->refresh();
    }
  });
}

/// After a graph with microbatches has been enqueued.
llvm::Error SessionImpl::finishRecorded(MicrobatchCallback done) {
  if (llvm::Error error = guarded([&] { stagedInputs.noteSent(); }))
    return error;
  for (int64_t index = 0; index < options.microbatches; ++index) {
    doneMicrobatch = index;
    if (llvm::Error error = done(index))
      return error;
  }
  return llvm::Error::success();
}

llvm::Error SessionImpl::runRecordedMicrobatches(int64_t stepNumber, MicrobatchCallback fill,
                                                 MicrobatchCallback done) {
  if (llvm::Error error = prepareRecorded(stepNumber, fill))
    return error;
  bool isReplay = microbatchGraph->isRecorded();
  auto body = [&] {
    llvm::Error error = enqueueMicrobatches(stepNumber);
    // The gradients among them, too, which the update's graph reads.
    if (!error && device->isRecording())
      recordedResults = results;
    return error;
  };
  if (llvm::Error error = microbatchGraph->run(body))
    return error;
  if (isReplay)
    results = recordedResults;
  return finishRecorded(done);
}

llvm::Error SessionImpl::runRecordedUpdate(int64_t stepNumber) {
  if (updateGraph->isRecorded()) {
    if (llvm::Error error = prepareRecordedUpdate(stepNumber))
      return error;
    for (c10::IValue &value : results)
      value = c10::IValue();
  }
  if (llvm::Error error = updateGraph->run([&] { return enqueueUpdate(stepNumber); }))
    return error;
  return guarded([&] { updateDone = device->record(StreamKind::Compute); });
}

llvm::Error SessionImpl::runRecordedStep(int64_t stepNumber, MicrobatchCallback fill,
                                         MicrobatchCallback done) {
  if (llvm::Error error = prepareRecorded(stepNumber, fill))
    return error;
  bool isReplay = stepGraph->isRecorded();
  if (isReplay)
    if (llvm::Error error = prepareRecordedUpdate(stepNumber))
      return error;
  auto body = [&]() -> llvm::Error {
    if (llvm::Error error = enqueueMicrobatches(stepNumber))
      return error;
    if (llvm::Error error = enqueueUpdate(stepNumber))
      return error;
    if (device->isRecording())
      recordedResults = results;
    return llvm::Error::success();
  };
  if (llvm::Error error = stepGraph->run(body))
    return error;
  if (isReplay)
    results = recordedResults;
  if (llvm::Error error = guarded([&] { updateDone = device->record(StreamKind::Compute); }))
    return error;
  return finishRecorded(done);
}

llvm::Error SessionImpl::runStep(int64_t stepNumber, MicrobatchCallback fill,
                                 MicrobatchCallback done) {
  if (!recordsSteps() || !program->hasUpdate()) {
    if (llvm::Error error = runMicrobatches(stepNumber, fill, done))
      return error;
    return runUpdate(stepNumber);
  }
  if (llvm::Error error = closeViews())
    return error;
  return runRecordedStep(stepNumber, fill, done);
}
