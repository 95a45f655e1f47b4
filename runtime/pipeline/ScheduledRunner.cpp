//===- ScheduledRunner.cpp - runs a rank's part of a schedule -----------------===//

#include "runtime/pipeline/ScheduledRunner.h"
#include "runtime/comm/Failure.h"
#include "runtime/io/Error.h"

using namespace cleave::runtime;
using Kind = ScheduledAction::Kind;

/// Runs `body`, which returns an error or lets LibTorch throw one.
template <typename Body> static llvm::Error attempt(Body body) {
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    failure = body();
  });
  return llvm::joinErrors(std::move(failure), std::move(thrown));
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<ScheduledRunner>> ScheduledRunner::create(StepContext &context) {
  const ScheduleInfo &schedule = *context.program.schedule();
  std::unique_ptr<ScheduledRunner> runner(new ScheduledRunner(context));
  llvm::Expected<ActionList> list =
      ActionList::compile(context.program, context.stages, context.options.actions);
  if (!list)
    return list.takeError();
  runner->list = std::move(*list);
  if (llvm::Error error = runner->bindCalled())
    return error;
  llvm::Expected<RankGroup> group = context.ranks->group(std::vector{schedule.axis});
  if (!group)
    return group.takeError();
  runner->group = *group;
  auto transfers = StageTransfers::create(std::move(*group), runner->list, schedule,
                                          context.program.numStages(), context.device);
  if (!transfers)
    return transfers.takeError();
  runner->transfers = std::move(*transfers);
  runner->connectFunctions();
  runner->findTied();
  return runner;
}

llvm::Error ScheduledRunner::bindCalled() {
  llvm::ArrayRef<ActionFunction> functions = context.program.impl().actionFunctions;
  called.resize(functions.size());
  for (auto [function, phase] : llvm::zip_equal(functions, called)) {
    if (!llvm::is_contained(function.ranks, unsigned(context.stages.place())))
      continue;
    llvm::Expected<std::unique_ptr<BoundPhase>> bound = bindPhase(context, function.part);
    if (!bound)
      return bound.takeError();
    phase = std::move(*bound);
  }
  return llvm::Error::success();
}

void ScheduledRunner::connectFunctions() {
  for (const Channel &channel : list.channels) {
    std::vector<size_t> &places = slots.emplace_back();
    for (const Channel::Value &value : channel.values)
      places.push_back(*context.places.crossing(
          channel.isForward, channel.isForward ? channel.stage : channel.stage - 1, value.name));
  }
  for (const StageSumExchange &sum : list.sums)
    stageSums.push_back(*context.places.stageSum(sum.name));
  const Program::Impl &impl = context.program.impl();
  unsharded.resize(context.program.numStages());
  for (const PhaseFunction &part : impl.phaseFunctions)
    if (part.phase == Phase::Unshard)
      for (const ValueInfo &value : part.signature.results)
        if (value.role == RoleKind::Saved)
          unsharded[part.stage].push_back(context.places.ofResult(part, value).index);
  states.resize(context.options.microbatches);
  sendsUnderWay.resize(list.numSends);
  receivesUnderWay.resize(list.channels.size() * states.size());
}

void ScheduledRunner::findTied() {
  llvm::StringMap<char> updated;
  for (const ValueInfo &value : context.program.results(Phase::Update))
    if (value.role == RoleKind::Parameter)
      updated.try_emplace(value.name);
  for (auto [index, value] : llvm::enumerate(context.program.weights())) {
    const StageMap::Holders &holders = context.stages.weight(value.name);
    if (!updated.contains(value.name) || holders.places.size() < 2)
      continue;
    Tied &entry = tied.emplace_back();
    entry.weight = index;
    entry.owner = holders.owner;
    entry.places.assign(holders.places.begin(), holders.places.end());
    entry.what = "tied parameter \"" + value.name + "\"";
  }
}

//===----------------------------------------------------------------------===//
// Observing, and errors
//===----------------------------------------------------------------------===//

void ScheduledRunner::observe(const ScheduledAction &entry, int64_t begin, int64_t ready,
                              int64_t bytes) {
  if (!isObserved())
    return;
  ActionEvent event;
  event.text = entry.text;
  event.action = entry.action;
  event.step = step;
  event.position = entry.position;
  event.beginNs = begin;
  event.readyNs = ready;
  event.endNs = now();
  event.bytes = bytes;
  context.reporter.report(event);
}

/// Says which action failed; who is to blame stays with the error.
llvm::Error ScheduledRunner::describe(const ScheduledAction &entry, llvm::Error error) const {
  std::string place = ("step " + llvm::Twine(step) + ", action " + entry.text + " (position " +
                       llvm::Twine(entry.position) + " of the rank's list)")
                          .str();
  std::string prefix = place + ": ";
  return llvm::handleErrors(
      std::move(error),
      [&](const PeerFailure &failure) -> llvm::Error {
        std::string text;
        llvm::raw_string_ostream os(text);
        failure.log(os);
        std::string operation =
            failure.operation().empty() ? place : prefix + failure.operation().str();
        return llvm::make_error<PeerFailure>(prefix + text, failure.missingRanks().vec(),
                                             failure.isReported(), std::move(operation));
      },
      [&](std::unique_ptr<CollectiveRefusal> refusal) -> llvm::Error {
        return llvm::Error(std::move(refusal));
      },
      [&](const llvm::ErrorInfoBase &other) -> llvm::Error {
        return makeError("{0}{1}", prefix, other.message());
      });
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

llvm::Error ScheduledRunner::beginStep(int64_t stepNumber) {
  step = stepNumber;
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    context.beginStep(stepNumber);
    context.state.setStep(context.updateNumber(stepNumber));
    for (auto [index, state] : llvm::enumerate(states)) {
      state.index = int64_t(index);
      state.saved.assign(context.places.numSaved(), c10::IValue());
      state.rngOffset = context.makeOffset(stepNumber, state.index);
    }
  });
}

llvm::Error ScheduledRunner::runMicrobatch(int64_t, int64_t) {
  return makeError("schedule '{0}' runs the microbatches of a step together",
                   context.program.schedule()->name);
}

llvm::Error ScheduledRunner::runMicrobatches(int64_t stepNumber, MicrobatchCallback fill,
                                             MicrobatchCallback done) {
  if (llvm::Error error = context.state.closeViews())
    return error;
  if (llvm::Error error = beginStep(stepNumber))
    return error;
  for (const ScheduledAction &entry : list.actions) {
    if (llvm::Error error = attempt([&] { return run(entry, fill, done); }))
      return describe(entry, std::move(error));
    if (entry.isLast) {
      states[entry.microbatch].saved.clear();
      states[entry.microbatch].inputs.clear();
    }
  }
  if (llvm::Error error = finishSends())
    return error;
  return context.reporter.flush();
}

llvm::Error ScheduledRunner::runUpdate(int64_t) {
  if (llvm::Error error = context.state.closeViews())
    return error;
  for (const ScheduledAction &entry : list.steps)
    if (llvm::Error error = attempt([&] { return run(entry, nullptr, nullptr); }))
      return describe(entry, std::move(error));
  if (llvm::Error error = shareWeights())
    return error;
  return context.reporter.flush();
}

llvm::Error ScheduledRunner::shareWeights() {
  return attempt([&] { return copyTied(); });
}

llvm::Error ScheduledRunner::run(const ScheduledAction &entry, MicrobatchCallback fill,
                                 MicrobatchCallback done) {
  if (Communicator *world = context.ranks->communicator())
    if (llvm::Error error = world->checkPeers())
      return error;
  switch (entry.kind) {
  case Kind::Compute:
    return compute(entry, fill, done);
  case Kind::Send:
    return send(entry);
  case Kind::Receive:
    receivesUnderWay[entry.channel * states.size() + entry.microbatch] = {&entry, now()};
    return transfers->startReceive(entry);
  case Kind::Once:
    return runOnce(entry);
  case Kind::Sum:
    return sumStages(entry);
  case Kind::Call:
    return callFunction(entry);
  case Kind::User:
    return callUser(entry);
  case Kind::Release:
    release(entry);
    return llvm::Error::success();
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Computations
//===----------------------------------------------------------------------===//

llvm::Error ScheduledRunner::compute(const ScheduledAction &entry, MicrobatchCallback fill,
                                     MicrobatchCallback done) {
  int64_t begin = now();
  int64_t ready = begin;
  if (entry.channel != ScheduledAction::kNone) {
    if (llvm::Error error = takeInput(entry))
      return error;
    ready = now();
  }
  if (entry.readsInputs)
    if (llvm::Error error = readInputs(entry, fill))
      return error;
  MicrobatchState &state = states[entry.microbatch];
  for (uint32_t function : entry.functions)
    if (llvm::Error error = runPhase(context, *context.phases.byFunction[function], state))
      return error;
  observe(entry, begin, ready);
  if (entry.endsForward)
    if (llvm::Error error = done(entry.microbatch))
      return error;
  return llvm::Error::success();
}

llvm::Error ScheduledRunner::readInputs(const ScheduledAction &entry, MicrobatchCallback fill) {
  if (llvm::Error error = fill(entry.microbatch))
    return error;
  // The next microbatch's data overwrites the session's while this one is still in flight.
  states[entry.microbatch].inputs = context.state.takeInputs(/*areCopied=*/true);
  return llvm::Error::success();
}

/// Waits for what the neighbouring stage on another rank has sent.
llvm::Error ScheduledRunner::takeInput(const ScheduledAction &entry) {
  llvm::Expected<StageTransfers::Values> values =
      transfers->finishReceive(entry.channel, entry.microbatch);
  if (!values)
    return values.takeError();
  for (auto [slot, value] : llvm::zip_equal(slots[entry.channel], *values))
    states[entry.microbatch].saved[slot] = std::move(value);
  Started &started = receivesUnderWay[entry.channel * states.size() + entry.microbatch];
  if (isObserved())
    observe(*started.entry, started.beginNs, started.beginNs, transfers->bytes(entry.channel));
  for (uint32_t number : entry.completes)
    if (llvm::Error error = finishSend(number))
      return error;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Sends
//===----------------------------------------------------------------------===//

llvm::Error ScheduledRunner::send(const ScheduledAction &entry) {
  StageTransfers::Values values;
  std::vector<c10::IValue> &saved = states[entry.microbatch].saved;
  for (size_t slot : slots[entry.channel]) {
    values.push_back(std::move(saved[slot]).toTensor());
    saved[slot] = c10::IValue();
  }
  sendsUnderWay[entry.send] = {&entry, now()};
  return transfers->startSend(entry, values);
}

llvm::Error ScheduledRunner::finishSend(uint32_t number) {
  const Started &started = sendsUnderWay[number];
  if (!started.entry)
    return llvm::Error::success();
  if (llvm::Error error = transfers->finishSend(number))
    return error;
  observe(*started.entry, started.beginNs, started.beginNs,
          transfers->bytes(started.entry->channel));
  sendsUnderWay[number] = {};
  return llvm::Error::success();
}

llvm::Error ScheduledRunner::finishSends() {
  for (uint32_t number = 0; number < list.numSends; ++number)
    if (sendsUnderWay[number].entry)
      if (llvm::Error error = finishSend(number))
        return describe(*sendsUnderWay[number].entry, std::move(error));
  return transfers->finishLayouts();
}

//===----------------------------------------------------------------------===//
// Once per step
//===----------------------------------------------------------------------===//

llvm::Error ScheduledRunner::runOnce(const ScheduledAction &entry) {
  int64_t begin = now();
  MicrobatchState none;
  for (uint32_t function : entry.functions) {
    BoundPhase &bound = *context.phases.byFunction[function];
    if (llvm::Error error = checkGradients(context, bound, step))
      return error;
    if (llvm::Error error = runPhase(context, bound, none))
      return error;
  }
  observe(entry, begin, begin);
  return llvm::Error::success();
}

llvm::Error ScheduledRunner::callFunction(const ScheduledAction &entry) {
  int64_t begin = now();
  MicrobatchState none;
  if (llvm::Error error = runPhase(context, *called[entry.actionFunction], none))
    return error;
  observe(entry, begin, begin);
  return llvm::Error::success();
}

llvm::Error ScheduledRunner::callUser(const ScheduledAction &entry) {
  int64_t begin = now();
  UserAction action = entry.user;
  action.step = step;
  action.rank = context.ranks->rank();
  if (llvm::Error error = entry.callback(action))
    return error;
  // What it wrote through views of tensors on a device.
  if (llvm::Error error = context.state.closeViews())
    return error;
  observe(entry, begin, begin);
  return llvm::Error::success();
}

void ScheduledRunner::release(const ScheduledAction &entry) {
  int64_t begin = now();
  for (size_t index : unsharded[entry.action.stage])
    context.state.unsharded[index] = c10::IValue();
  observe(entry, begin, begin);
}

llvm::Error ScheduledRunner::copyTied() {
  for (auto [index, entry] : llvm::enumerate(tied))
    if (at::Tensor &weight = context.state.weights[entry.weight]; weight.defined())
      if (llvm::Error error =
              transfers->startCopy(weight, entry.owner, entry.places, int64_t(index), entry.what))
        return error;
  return transfers->finishCopies();
}
