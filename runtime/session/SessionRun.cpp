//===- SessionRun.cpp - how a session runs steps ------------------------------===//

#include "runtime/pipeline/PipelineRunner.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <chrono>
#include <thread>

using namespace cleave::runtime;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

at::Tensor *SessionImpl::state(const Place &place) {
  switch (place.kind) {
  case Place::Weight:
    return &weights[place.index];
  case Place::State:
    return &optimizerStates[place.index];
  default:
    return nullptr;
  }
}

//===----------------------------------------------------------------------===//
// One function
//===----------------------------------------------------------------------===//

/// Tied values are moved into the frame: so the function sees that it alone holds them and may
/// overwrite or free them; new values of state come back with the results.
void SessionImpl::fillArguments(Executor &executor, const BoundPhase &bound,
                                MicrobatchState &microbatchState) {
  for (auto [index, place] : llvm::enumerate(bound.arguments)) {
    c10::IValue &slot = executor.argument(index);
    switch (place.kind) {
    case Place::Weight:
    case Place::State:
      slot = place.isTied ? std::move(*state(place)) : *state(place);
      break;
    case Place::Input:
      slot = place.isTied ? std::move(microbatchState.inputs[place.index])
                          : microbatchState.inputs[place.index];
      break;
    case Place::Result:
      slot = std::move(results[place.index]);
      results[place.index] = c10::IValue();
      break;
    case Place::Seed:
      slot = seed;
      break;
    case Place::Step:
      slot = step;
      break;
    case Place::RngSeed:
      slot = rngSeed;
      break;
    case Place::RngOffset:
      slot = microbatchState.rngOffset;
      break;
    case Place::Saved: {
      c10::IValue &saved = microbatchState.saved[place.index];
      slot = place.isTied ? std::move(saved) : saved;
      break;
    }
    case Place::Unsharded:
      slot = unsharded[place.index];
      break;
    case Place::StageSum:
      slot = stageSums[place.index].total;
      break;
    }
  }
}

llvm::Error SessionImpl::storeResults(std::vector<c10::IValue> values, const BoundPhase &bound,
                                      MicrobatchState &microbatchState) {
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    for (auto [place, value] : llvm::zip_equal(bound.results, values)) {
      switch (place.kind) {
      case Place::Saved:
        microbatchState.saved[place.index] = std::move(value);
        continue;
      case Place::Unsharded:
        unsharded[place.index] = std::move(value);
        continue;
      case Place::StageSum:
        stageSums[place.index].terms[bound.stage] = std::move(value).toTensor();
        continue;
      case Place::Weight:
      case Place::State:
        break;
      default:
        results[place.index] = std::move(value);
        continue;
      }
      // State is flat memory of its own: two results may be views of one value.
      at::Tensor tensor = std::move(value).toTensor();
      if (!tensor.is_contiguous() || !isSoleOwner(tensor))
        tensor = tensor.clone(at::MemoryFormat::Contiguous);
      *state(place) = std::move(tensor);
    }
  });
}

llvm::Error SessionImpl::closeViews() {
  return views.isOpen() ? guarded([&] { views.close(); }) : llvm::Error::success();
}

llvm::Error SessionImpl::awaitDevice() {
  if (!device->hasStreams())
    return llvm::Error::success();
  using Clock = std::chrono::steady_clock;
  Communicator *world = ranks->communicator();
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    std::optional<c10::Event> done = device->record(StreamKind::Compute);
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

std::vector<at::Tensor> SessionImpl::takeInputs(bool areCopied) {
  std::vector<at::Tensor> taken = inputs;
  if (areCopied)
    for (at::Tensor &input : taken)
      if (input.defined())
        input = stagedInputs.isUsed() ? at::empty_like(input) : input.clone();
  if (stagedInputs.isUsed())
    stagedInputs.send(taken);
  return taken;
}

static int64_t steadyNs() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t SessionImpl::markTime() {
  return timeline ? timeline->mark() : steadyNs();
}

void SessionImpl::reportAction(const ActionEvent &event) {
  if (timeline)
    markedActions.emplace_back(event, event.text);
  else
    options.onAction(event);
}

llvm::Error SessionImpl::reportMarked() {
  if (!timeline)
    return llvm::Error::success();
  if (llvm::Error error = guarded([&] { timeline->close(); }))
    return error;
  for (auto &[event, text] : markedActions) {
    event.text = text;
    event.beginNs = timeline->time(event.beginNs);
    event.readyNs = timeline->time(event.readyNs);
    event.endNs = timeline->time(event.endNs);
    options.onAction(event);
  }
  markedActions.clear();
  timeline->clear();
  return llvm::Error::success();
}

/// Of a stage that no schedule runs: the function as the action that it is.
void SessionImpl::observePhase(const BoundPhase &bound, int64_t microbatch, int64_t begin) {
  using schedule::ActionKind;
  std::optional<ActionKind> kind;
  switch (bound.phase) {
  case Phase::Microbatch:
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
  std::string text = schedule::Program().str(action);
  ActionEvent event;
  event.text = text;
  event.action = action;
  event.step = int64_t(*step.const_data_ptr<float>());
  event.beginNs = event.readyNs = begin;
  event.endNs = markTime();
  reportAction(event);
}

llvm::Error SessionImpl::runPhase(BoundPhase &bound, MicrobatchState &microbatchState) {
  bool isObserved = options.onAction && !runner && program->numStages() > 0;
  int64_t begin = isObserved ? markTime() : 0;
  unsigned frame = frames.slotOf(bound.stage, microbatchState.index);
  Executor &executor = *bound.executors[bound.executors.size() > 1 ? frame : 0];
  fillArguments(executor, bound, microbatchState);
  std::vector<c10::IValue> values;
  if (llvm::Error error = executor.run(values, bound.observers))
    return error;
  if (llvm::Error error = storeResults(std::move(values), bound, microbatchState))
    return error;
  if (options.keepOutputs)
    keepOutputs(bound, microbatchState.index);
  if (bound.endsFrame && options.poisonsDeadMemory) {
    int64_t begin = frameOffset(bound.stage, frame);
    int64_t bytes = frames.stages[bound.stage].frameBytes;
    if (llvm::Error error = guarded([&] { executor.poison(begin, bytes); }))
      return error;
  }
  if (isObserved)
    observePhase(bound, microbatchState.index, begin);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Microbatches
//===----------------------------------------------------------------------===//

void SessionImpl::beginStep(int64_t stepNumber) {
  c10::InferenceMode inferenceMode;
  if (seed.defined())
    seed.fill_(options.lossSeed.value_or(1.0 / double(totalMicrobatches())));
  rngSeed.fill_(static_cast<int64_t>(options.seed));
  *step.mutable_data_ptr<float>() = static_cast<float>(stepNumber);
  for (c10::IValue &value : results)
    value = c10::IValue();
  for (std::vector<at::Tensor> &parts : outputs)
    parts.clear();
  for (StageSum &sum : stageSums) {
    llvm::fill(sum.terms, at::Tensor());
    sum.total = at::Tensor();
  }
}

at::Tensor SessionImpl::placeOffset(int64_t stepNumber, int64_t index) {
  if (services.drawsOnDevice) {
    // A recorded step adds to what is written before it runs (prepareRecorded).
    if (recordsSteps())
      return rngOffset.add(index * program->draws());
    return at::full({}, randomOffset(stepNumber, index), device->options(DType::I64));
  }
  // Of a microbatch that is done before the next one begins, where the last one's was.
  bool isAlone = !isDeferred() && !runner;
  at::Tensor offset = isAlone ? rngOffset : allocate({DType::I64, {}});
  *offset.mutable_data_ptr<int64_t>() = randomOffset(stepNumber, index);
  return offset;
}

SessionImpl::MicrobatchState SessionImpl::beginMicrobatch(int64_t stepNumber, int64_t index) {
  c10::InferenceMode inferenceMode;
  // Accumulated gradients go on, but not into another step; nothing else is needed any more.
  if (index == 0)
    beginStep(stepNumber);
  for (auto [position, value] : llvm::enumerate(results))
    if (!isAccumulated[position])
      value = c10::IValue();
  MicrobatchState microbatchState;
  microbatchState.index = index;
  microbatchState.saved.resize(savedIndex.size());
  // The next microbatch's data overwrites the session's while a deferred one still waits; so saved
  // views of the data are of a copy too.
  microbatchState.inputs = takeInputs(/*areCopied=*/isDeferred());
  microbatchState.rngOffset = placeOffset(stepNumber, index);
  return microbatchState;
}

llvm::Error SessionImpl::runMicrobatch(int64_t stepNumber, int64_t index) {
  if (runner)
    return makeError("schedule '" + program->schedule()->name +
                     "' runs the microbatches of a step together");
  if (stepNumber < 1 || index < 0 || index >= options.microbatches)
    return makeError("there is no microbatch " + llvm::Twine(index) + " of step " +
                     llvm::Twine(stepNumber) + ": steps count from 1, microbatches from 0 to " +
                     llvm::Twine(options.microbatches - 1));
  if (index == 0)
    waiting.clear();
  if (isDeferred() && size_t(index) != waiting.size())
    return makeError("expected microbatch " + llvm::Twine(waiting.size()) + " of step " +
                     llvm::Twine(stepNumber) + " next, found " + llvm::Twine(index));
  if (llvm::Error error = closeViews())
    return error;
  MicrobatchState microbatchState;
  if (llvm::Error error = guarded([&] { microbatchState = beginMicrobatch(stepNumber, index); }))
    return error;
  if (index == 0)
    for (std::unique_ptr<BoundPhase> &bound : unshard)
      if (llvm::Error error = runPhase(*bound, microbatchState))
        return error;
  for (std::unique_ptr<BoundPhase> &bound : microbatch) {
    if (isDeferred() && bound->phase == Phase::BackwardWeight)
      continue;
    if (llvm::Error error = runPhase(*bound, microbatchState))
      return error;
  }
  if (isDeferred())
    waiting.push_back(std::move(microbatchState));
  return index + 1 == options.microbatches ? finishMicrobatches() : llvm::Error::success();
}

llvm::Error SessionImpl::runMicrobatches(int64_t stepNumber, MicrobatchCallback fill,
                                         MicrobatchCallback done) {
  if (llvm::Error error = closeViews())
    return error;
  if (runner) {
    llvm::Error error = runner->runMicrobatches(stepNumber, fill, done);
    return error ? std::move(error) : reportMarked();
  }
  if (microbatchGraph)
    return runRecordedMicrobatches(stepNumber, fill, done);
  for (int64_t index = 0; index < options.microbatches; ++index) {
    if (llvm::Error error = fill(index))
      return error;
    if (llvm::Error error = runMicrobatch(stepNumber, index))
      return error;
    if (llvm::Error error = done(index))
      return error;
  }
  return reportMarked();
}

void SessionImpl::keepOutputs(const BoundPhase &bound, int64_t index) {
  c10::InferenceMode inferenceMode;
  llvm::ArrayRef<ValueInfo> values = program->results(Phase::Microbatch);
  for (const Place &place : bound.results) {
    if (place.kind != Place::Result || place.index >= values.size())
      continue;
    const ValueInfo &value = values[place.index];
    if (value.role != RoleKind::Loss && !(value.role == RoleKind::Output && value.batch))
      continue;
    std::vector<at::Tensor> &parts = outputs[place.index];
    parts.resize(options.microbatches);
    // Copied, because a view would keep all of its storage and may not be contiguous.
    parts[index] =
        device->toHost(results[place.index].toTensor().clone(at::MemoryFormat::Contiguous));
  }
}

std::vector<ConstTensorRef> SessionImpl::keptOutputs(llvm::StringRef fileName) {
  std::vector<ConstTensorRef> refs;
  auto found = resultIndex.find(fileName);
  if (found == resultIndex.end())
    return refs;
  for (at::Tensor &part : outputs[found->second])
    refs.push_back(refTo(part));
  return refs;
}

llvm::Error SessionImpl::finishMicrobatches() {
  for (MicrobatchState &microbatchState : waiting) {
    for (std::unique_ptr<BoundPhase> &bound : microbatch)
      if (bound->phase == Phase::BackwardWeight)
        if (llvm::Error error = runPhase(*bound, microbatchState))
          return error;
    microbatchState = MicrobatchState();
  }
  waiting.clear();
  for (c10::IValue &value : unsharded)
    value = c10::IValue();
  MicrobatchState none;
  for (std::unique_ptr<BoundPhase> &bound : reduce)
    if (llvm::Error error = runPhase(*bound, none))
      return error;
  return guarded([&] { llvm::for_each(stageSums, addTerms); });
}

void SessionImpl::addTerms(StageSum &sum) {
  c10::InferenceMode inferenceMode;
  sum.total = at::Tensor();
  for (const at::Tensor &term : sum.terms)
    if (term.defined())
      sum.total = sum.total.defined() ? at::add(sum.total, term) : term;
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

llvm::Error SessionImpl::checkGradients(const BoundPhase &bound, int64_t stepNumber) const {
  if (bound.phase != Phase::Update)
    return llvm::Error::success();
  for (const Place &place : bound.arguments)
    if (place.kind == Place::Result && results[place.index].isNone())
      return makeError("there are no gradients for an update of step " + llvm::Twine(stepNumber) +
                       ": run its microbatches first");
  return llvm::Error::success();
}

llvm::Error SessionImpl::runUpdate(int64_t stepNumber) {
  if (!program->hasUpdate())
    return makeError("program '" + program->path() +
                     "' has no update function; export it with an optimizer to train");
  if (llvm::Error error = closeViews())
    return error;
  if (runner) {
    llvm::Error error = runner->runUpdate(stepNumber);
    return error ? std::move(error) : reportMarked();
  }
  for (const std::unique_ptr<BoundPhase> &bound : update)
    if (llvm::Error error = checkGradients(*bound, stepNumber))
      return error;
  *step.mutable_data_ptr<float>() = static_cast<float>(stepNumber);
  if (updateGraph)
    return runRecordedUpdate(stepNumber);
  MicrobatchState none;
  for (std::unique_ptr<BoundPhase> &bound : update)
    if (llvm::Error error = runPhase(*bound, none))
      return error;
  return reportMarked();
}
