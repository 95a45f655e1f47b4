//===- SequentialRunner.cpp - runs a step function after function -------------===//

#include "runtime/step/SequentialRunner.h"
#include "runtime/io/Error.h"

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// One function
//===----------------------------------------------------------------------===//

/// Reports a stage's function as the action of a schedule that it is.
void SequentialRunner::report(const BoundPhase &bound, int64_t microbatch, int64_t begin) {
  using schedule::ActionKind;
  std::optional<ActionKind> kind;
  switch (bound.phase) {
  case Phase::Microbatch:
  case Phase::Action:
    return;
  case Phase::Forward:
    kind = ActionKind::Forward;
    break;
  case Phase::Backward:
    kind = ActionKind::Backward;
    break;
  case Phase::BackwardInput:
    kind = ActionKind::BackwardInput;
    break;
  case Phase::BackwardWeight:
    kind = ActionKind::BackwardWeight;
    break;
  case Phase::Unshard:
    kind = ActionKind::Unshard;
    break;
  case Phase::Reduce:
    kind = ActionKind::ReduceGrad;
    break;
  case Phase::Update:
    kind = ActionKind::OptimizerStep;
    break;
  }
  schedule::Action action(*kind, unsigned(bound.stage),
                          schedule::hasMicrobatch(*kind) ? unsigned(microbatch) : 0);
  std::string text = schedule::Schedule().str(action);
  ActionEvent event;
  event.text = text;
  event.action = action;
  event.step = context.state.stepNumber();
  event.beginNs = event.readyNs = begin;
  event.endNs = context.reporter.now();
  context.reporter.report(event);
}

llvm::Error SequentialRunner::run(BoundPhase &bound, MicrobatchState &microbatch) {
  bool isObserved = context.reporter.isOn() && context.program.numStages() > 0;
  int64_t begin = isObserved ? context.reporter.now() : 0;
  if (llvm::Error error = runPhase(context, bound, microbatch))
    return error;
  if (isObserved)
    report(bound, microbatch.index, begin);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Microbatches
//===----------------------------------------------------------------------===//

at::Tensor SequentialRunner::placeOffset(int64_t step, int64_t index) {
  at::Tensor &shared = context.state.rngOffset;
  if (offsetsAreAdded)
    return shared.add(index * context.program.draws());
  if (context.services.drawsOnDevice || context.isDeferred())
    return context.makeOffset(step, index);
  // The last microbatch has ended: its offset is not read again.
  *shared.mutable_data_ptr<int64_t>() = context.randomOffset(step, index);
  return shared;
}

MicrobatchState SequentialRunner::beginMicrobatch(int64_t step, int64_t index) {
  c10::InferenceMode inferenceMode;
  StepState &state = context.state;
  // Accumulated gradients go on, but not into another step; other results end here.
  if (index == 0)
    context.beginStep(step);
  for (auto [position, value] : llvm::enumerate(state.results))
    if (!context.places.isAccumulated(position))
      value = c10::IValue();
  MicrobatchState microbatch;
  microbatch.index = index;
  microbatch.saved.resize(context.places.numSaved());
  // The next microbatch's data overwrites the session's while a deferred one still waits; so saved
  // views of the data are of a copy too.
  microbatch.inputs = state.takeInputs(/*areCopied=*/context.isDeferred());
  microbatch.rngOffset = placeOffset(step, index);
  return microbatch;
}

llvm::Error SequentialRunner::runMicrobatch(int64_t step, int64_t index) {
  int64_t count = context.options.microbatches;
  if (step < 1 || index < 0 || index >= count)
    return makeError("there is no microbatch {0} of step {1}: steps count from 1, microbatches "
                     "from 0 to {2}",
                     index, step, count - 1);
  bool isDeferred = context.isDeferred();
  if (index == 0)
    waiting.clear();
  if (isDeferred && size_t(index) != waiting.size())
    return makeError("expected microbatch {0} of step {1} next, found {2}", waiting.size(), step,
                     index);
  if (llvm::Error error = context.state.closeViews())
    return error;
  MicrobatchState microbatch;
  if (llvm::Error error = guarded([&] { microbatch = beginMicrobatch(step, index); }))
    return error;
  if (index == 0)
    for (std::unique_ptr<BoundPhase> &bound : context.phases.unshard)
      if (llvm::Error error = run(*bound, microbatch))
        return error;
  for (std::unique_ptr<BoundPhase> &bound : context.phases.microbatch) {
    if (isDeferred && bound->phase == Phase::BackwardWeight)
      continue;
    if (llvm::Error error = run(*bound, microbatch))
      return error;
  }
  if (isDeferred)
    waiting.push_back(std::move(microbatch));
  return index + 1 == count ? finishMicrobatches() : llvm::Error::success();
}

llvm::Error SequentialRunner::runMicrobatches(int64_t step, MicrobatchCallback fill,
                                              MicrobatchCallback done) {
  if (llvm::Error error = context.state.closeViews())
    return error;
  for (int64_t index = 0; index < context.options.microbatches; ++index) {
    if (llvm::Error error = fill(index))
      return error;
    if (llvm::Error error = runMicrobatch(step, index))
      return error;
    if (llvm::Error error = done(index))
      return error;
  }
  return context.reporter.flush();
}

llvm::Error SequentialRunner::finishMicrobatches() {
  for (MicrobatchState &microbatch : waiting) {
    for (std::unique_ptr<BoundPhase> &bound : context.phases.microbatch)
      if (bound->phase == Phase::BackwardWeight)
        if (llvm::Error error = run(*bound, microbatch))
          return error;
    microbatch = MicrobatchState();
  }
  waiting.clear();
  for (c10::IValue &value : context.state.unsharded)
    value = c10::IValue();
  MicrobatchState none;
  for (std::unique_ptr<BoundPhase> &bound : context.phases.reduce)
    if (llvm::Error error = run(*bound, none))
      return error;
  return guarded([&] {
    for (StageSum &sum : context.state.stageSums)
      sum.add();
  });
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

llvm::Error SequentialRunner::runUpdate(int64_t step) {
  if (llvm::Error error = context.state.closeViews())
    return error;
  for (const std::unique_ptr<BoundPhase> &bound : context.phases.update)
    if (llvm::Error error = checkGradients(context, *bound, step))
      return error;
  context.state.setStep(context.updateNumber(step));
  MicrobatchState none;
  for (std::unique_ptr<BoundPhase> &bound : context.phases.update)
    if (llvm::Error error = run(*bound, none))
      return error;
  return context.reporter.flush();
}
