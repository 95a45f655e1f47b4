//===- SessionImpl.cpp - making a session: its state and bound functions ------===//

#include "runtime/session/SessionImpl.h"
#include "runtime/exec/DistOps.h"
#include "runtime/pipeline/PipelineRunner.h"
#include "runtime/program/Form.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

using namespace cleave::runtime;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

SessionImpl::~SessionImpl() = default;

llvm::Expected<std::unique_ptr<SessionImpl>> SessionImpl::create(const Program &program,
                                                                 const SessionOptions &options) {
  auto session = std::make_unique<SessionImpl>();
  session->program = &program;
  session->options = options;
  session->device = options.device ? options.device : &Device::host();
  session->views.setDevice(*session->device);
  session->stagedInputs.setDevice(*session->device);
  auto ranks = RankGrid::create(program, options.communicator);
  if (!ranks)
    return ranks.takeError();
  session->ranks = std::move(*ranks);
  session->stages = StageMap(program, *session->ranks);
  if (options.check.isOn && !program.isTyped())
    return makeError("program '" + program.path() +
                     "': --check replicated expects a typed program, "
                     "whose types say what is equal; found no placements");
  llvm::Error noKernels = llvm::Error::success();
  auto take = [&](auto kernels) {
    if (kernels)
      session->kernels = std::move(*kernels);
    else
      noKernels = kernels.takeError();
  };
  if (session->device->isHost())
    take(CpuKernels::create(*program.impl().module, options.kernels));
  else
    take(DeviceKernels::create(*program.impl().module, options.kernels, *session->device));
  if (noKernels)
    return makeError("program '" + program.path() + "': " + llvm::toString(std::move(noKernels)));
  if (!hasKernels(program) && options.kernels != "best" && options.kernels != "none")
    return makeError("program '" + program.path() + "': --kernels " + options.kernels +
                     " expects a program with kernels (cleave-opt --fuse-kernels "
                     "--compile-kernels), found none");
  // One rank has nobody to compare with.
  session->services = {session->ranks.get(), &session->random, &session->buckets,
                       options.check.isOn && session->ranks->ranks() > 1, session->device};
  if (!session->kernels->target().empty())
    session->services.kernels = session->kernels.get();
  session->services.arena = &session->arena;
  session->services.poisonsDeadMemory = options.poisonsDeadMemory;
  session->services.frameEnds = &session->frameEnds;
  session->services.drawsOnDevice = session->canDrawOnDevice();
  for (const ValueInfo &value : program.inputs())
    if (value.batch && !value.over.empty() && !program.isTyped())
      session->part = session->ranks->along(value.over);
  if (llvm::Error error = session->checkMicrobatches())
    return error;
  if (session->isDeferred())
    if (llvm::Error error = checkDeferrable(program))
      return error;

  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    failure = session->connectGroups();
    if (!failure)
      failure = session->allocateState();
    if (!failure)
      failure = session->makeBuckets();
    if (!failure)
      failure = session->makeArena();
    if (!failure)
      failure = session->bindPhases();
    if (!failure)
      failure = session->makeRunner();
    if (!failure)
      session->setUpGraphs();
    if (options.onAction && !session->device->isHost())
      session->timeline.emplace(*session->device);
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  return session;
}

llvm::Error SessionImpl::checkScheduled() const {
  if (!stages.isScheduled())
    return llvm::Error::success();
  const ScheduleInfo &schedule = *program->schedule();
  if (schedule.microbatches != options.microbatches)
    return makeError("schedule '" + schedule.name + "' is for " +
                     llvm::Twine(schedule.microbatches) + " microbatches a step, found " +
                     llvm::Twine(options.microbatches));
  if (isDeferred())
    return makeError("schedule '" + schedule.name +
                     "' says when weight gradients run, so they cannot be deferred");
  return llvm::Error::success();
}

llvm::Error SessionImpl::makeRunner() {
  if (!stages.isScheduled())
    return llvm::Error::success();
  llvm::Expected<std::unique_ptr<PipelineRunner>> made = PipelineRunner::create(*this);
  if (!made)
    return makeError("program '" + program->path() + "': " + llvm::toString(made.takeError()));
  runner = std::move(*made);
  return llvm::Error::success();
}

llvm::Error SessionImpl::checkMicrobatches() const {
  if (options.microbatches < 1)
    return makeError("expected at least one microbatch, found " +
                     llvm::Twine(options.microbatches));
  if (llvm::Error error = checkScheduled())
    return error;
  if (options.microbatches == 1)
    return llvm::Error::success();
  llvm::StringMap<char> accumulated;
  for (const ValueInfo &value : program->arguments(Phase::Microbatch))
    if (value.role == RoleKind::Accumulator) {
      accumulated.try_emplace(value.name);
      for (const ValueInfo &member : value.members)
        accumulated.try_emplace(member.name);
    }
  // What an update takes must be whole; so must what is shown of all microbatches.
  bool isForwardOnly = program->schedule() && program->schedule()->isForwardOnly;
  llvm::ArrayRef<ValueInfo> wanted = program->arguments(Phase::Update);
  if (options.keepOutputs && !isForwardOnly)
    wanted = program->results(Phase::Microbatch);
  for (const ValueInfo &value : wanted)
    if (value.role == RoleKind::Gradient && !accumulated.contains(value.name))
      return makeError("the program does not accumulate the gradient of '" + value.name +
                       "', so it runs one microbatch a step, not " +
                       llvm::Twine(options.microbatches));
  return llvm::Error::success();
}

llvm::Error SessionImpl::allocateState() {
  // What is on other ranks stays undefined.
  for (const ValueInfo &value : program->weights())
    weights.push_back(stages.hasWeight(value.name) ? device->allocate(value.type) : at::Tensor());
  for (const ValueInfo &value : program->inputs())
    inputs.push_back(stages.hasInput(value.name) ? device->allocate(value.type) : at::Tensor());
  for (const at::Tensor &input : inputs)
    stagedInputs.add(input);
  for (const ValueInfo &value : program->optimizerStates()) {
    bool isHere = stages.hasState(value.name);
    optimizerStates.push_back(isHere ? device->allocate(value.type).zero_() : at::Tensor());
  }
  for (auto [index, value] : llvm::enumerate(program->weights())) {
    weightIndex[value.name] = index;
    for (const std::string &alias : value.aliases)
      weightIndex[alias] = index;
  }
  for (auto [index, value] : llvm::enumerate(program->inputs()))
    inputIndex[value.name] = index;
  for (auto [index, value] : llvm::enumerate(program->optimizerStates()))
    stateIndex[stateKey(value.name, value.slot)] = index;
  for (auto [index, value] : llvm::enumerate(program->results(Phase::Microbatch))) {
    resultIndex[value.fileName] = index;
    if (value.role == RoleKind::Gradient)
      gradientIndex[value.name] = index;
  }
  // A reduce function may wait for a bucket and give its members' gradients one by one.
  size_t numResults = program->results(Phase::Microbatch).size();
  for (const ValueInfo &value : program->results(Phase::Reduce)) {
    if (value.role == RoleKind::Gradient &&
        gradientIndex.try_emplace(value.name, numResults).second)
      ++numResults;
    if (value.role == RoleKind::StageSum)
      stageSumIndex.try_emplace(value.name, stageSumIndex.size());
  }
  // What an update reports, such as the norm of the gradients, is there until the next step begins.
  for (const ValueInfo &value : program->results(Phase::Update))
    if (value.role == RoleKind::Output &&
        resultIndex.try_emplace(value.fileName, numResults).second)
      ++numResults;
  stageSums.resize(stageSumIndex.size());
  for (StageSum &sum : stageSums)
    sum.terms.resize(program->numStages());
  results.resize(numResults);
  outputs.resize(results.size());
  isAccumulated.resize(results.size());
  indexSaved();

  for (const ValueInfo &value : program->arguments(Phase::Microbatch)) {
    if (value.role == RoleKind::Seed)
      seed = device->allocate(value.type);
    if (value.role == RoleKind::Accumulator)
      isAccumulated[gradientIndex.lookup(value.name)] = true;
  }
  // These steer ops and are read by the host, unless the device draws random numbers.
  step = allocate({DType::F32, {}});
  const Device &drawing = services.drawsOnDevice ? *device : Device::host();
  rngSeed = drawing.allocate({DType::I64, {}});
  rngOffset = drawing.allocate({DType::I64, {}});
  return llvm::Error::success();
}

llvm::Error SessionImpl::makeBuckets() {
  llvm::StringSet<> needed;
  for (const PhaseFunction &part : program->impl().phaseFunctions)
    if (stages.runs(part))
      for (const ValueInfo &value : part.signature.results)
        if (!value.members.empty())
          needed.insert(value.name);
  for (train::BucketOp op : program->impl().module.get().getOps<train::BucketOp>()) {
    if (stages.isScheduled() && !needed.contains(op.getSymName()))
      continue;
    auto bucket = Bucket::create(op, *ranks, *device, options);
    if (!bucket)
      return makeError("program '" + program->path() + "': " + llvm::toString(bucket.takeError()));
    buckets[op.getSymName()] = std::move(*bucket);
  }
  for (const ValueInfo &value : program->results(Phase::Microbatch))
    if (auto bucket = buckets.find(value.name); bucket != buckets.end())
      for (auto [index, member] : llvm::enumerate(value.members))
        memberIndex[member.fileName] = {bucket->second.get(), index};
  return llvm::Error::success();
}

void SessionImpl::indexSaved() {
  auto runs = [&](const PhaseFunction &part) { return stages.runs(part); };
  auto parts = llvm::make_filter_range(program->impl().phaseFunctions, runs);
  for (const PhaseFunction &part : parts)
    if (part.phase == Phase::Unshard)
      for (const ValueInfo &value : part.signature.results)
        if (value.role == RoleKind::Saved)
          unshardedIndex.try_emplace(savedKey(part, value, true), unshardedIndex.size());
  unsharded.resize(unshardedIndex.size());
  for (const PhaseFunction &part : parts) {
    if (!llvm::is_contained(program->microbatchPhases(), part.phase))
      continue;
    for (const ValueInfo &value : part.signature.results)
      if (isHandedOn(value.role))
        savedIndex.try_emplace(savedKey(part, value, true), savedIndex.size());
    for (const ValueInfo &value : part.signature.arguments) {
      std::string key = isHandedOn(value.role) ? savedKey(part, value, false) : "";
      if (!key.empty() && !unshardedIndex.contains(key)) {
        // What another rank makes arrives there.
        savedIndex.try_emplace(key, savedIndex.size());
        lastTaker[key] = &part;
      }
      if (value.role == RoleKind::Input || value.role == RoleKind::Target)
        lastInputTaker[value.name] = &part;
    }
  }
}

std::string SessionImpl::crossingKey(bool isForward, int64_t boundary, llvm::StringRef name) {
  return ((isForward ? "crossing " : "crossing_gradient ") + llvm::Twine(boundary) + "\n" + name)
      .str();
}

std::string SessionImpl::savedKey(const PhaseFunction &part, const ValueInfo &value,
                                  bool isResult) {
  switch (value.role) {
  case RoleKind::Crossing:
    return crossingKey(true, isResult ? part.stage : part.stage - 1, value.name);
  case RoleKind::CrossingGradient:
    return crossingKey(false, isResult ? part.stage - 1 : part.stage, value.name);
  default:
    return value.name;
  }
}

SessionImpl::Place SessionImpl::placeSaved(const PhaseFunction &part, const ValueInfo &value,
                                           bool isResult) const {
  std::string key = savedKey(part, value, isResult);
  if (auto found = unshardedIndex.find(key); found != unshardedIndex.end())
    return {Place::Unsharded, found->second};
  return {Place::Saved, savedIndex.lookup(key)};
}

llvm::Expected<SessionImpl::Place> SessionImpl::placeArgument(const PhaseFunction &part,
                                                              const ValueInfo &value) const {
  switch (value.role) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::Constant:
    return Place{Place::Weight, weightIndex.lookup(value.name)};
  case RoleKind::Input:
  case RoleKind::Target: {
    // Copies, which waiting microbatches have, go with their last use.
    bool isLast = isDeferred() && lastInputTaker.lookup(value.name) == &part;
    return Place{Place::Input, inputIndex.lookup(value.name), isLast};
  }
  case RoleKind::OptimizerState:
    return Place{Place::State, stateIndex.lookup(stateKey(value.name, value.slot))};
  case RoleKind::Accumulator:
  case RoleKind::Gradient:
    return Place{Place::Result, gradientIndex.lookup(value.name), /*isTied=*/true};
  case RoleKind::Seed:
    return Place{Place::Seed};
  case RoleKind::Step:
    return Place{Place::Step};
  case RoleKind::StageSum:
    return Place{Place::StageSum, stageSumIndex.lookup(value.name)};
  case RoleKind::RngSeed:
    return Place{Place::RngSeed};
  case RoleKind::RngOffset:
    return Place{Place::RngOffset};
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient: {
    Place place = placeSaved(part, value, /*isResult=*/false);
    place.isTied =
        place.kind == Place::Saved && lastTaker.lookup(savedKey(part, value, false)) == &part;
    return place;
  }
  case RoleKind::Loss:
  case RoleKind::Output:
    break;
  }
  return makeError("argument '" + value.fileName + "' has a role that only results have");
}

SessionImpl::Place SessionImpl::placeResult(const PhaseFunction &part,
                                            const ValueInfo &value) const {
  switch (value.role) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
    return {Place::Weight, weightIndex.lookup(value.name), true};
  case RoleKind::OptimizerState:
    return {Place::State, stateIndex.lookup(stateKey(value.name, value.slot)), true};
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient:
    return placeSaved(part, value, /*isResult=*/true);
  case RoleKind::Gradient:
    return {Place::Result, gradientIndex.lookup(value.name)};
  case RoleKind::StageSum:
    return {Place::StageSum, stageSumIndex.lookup(value.name)};
  default:
    return {Place::Result, resultIndex.lookup(value.fileName)};
  }
}

llvm::Expected<std::unique_ptr<SessionImpl::BoundPhase>>
SessionImpl::bindPhase(const PhaseFunction &part) {
  auto result = std::make_unique<BoundPhase>();
  result->phase = part.phase;
  result->stage = part.stage;
  for (const ValueInfo &value : part.signature.results)
    result->results.push_back(placeResult(part, value));
  for (const ValueInfo &value : part.signature.arguments) {
    llvm::Expected<Place> place = placeArgument(part, value);
    if (!place)
      return place.takeError();
    for (const Place &made : result->results)
      if (made.isTied && made.kind == place->kind && made.index == place->index)
        place->isTied = true;
    result->arguments.push_back(*place);
  }
  unsigned numSlots = countExecutors(part);
  for (unsigned slot = 0; slot < numSlots; ++slot) {
    services.frame = frameOffset(part.stage, slot);
    llvm::Expected<BoundFunction> bound = Binder(part.function, services).bind();
    if (!bound)
      return makeError("program '" + program->path() + "': " + llvm::toString(bound.takeError()));
    result->executors.push_back(std::make_unique<Executor>(std::move(*bound), part.phase, &arena));
  }
  if (llvm::Error error = observe(*result))
    return error;
  return result;
}

/// Connects all groups of ranks that the program's ops need. After that nothing speaks to other
/// ranks until the program runs: what is wrong on one of them cannot leave the others waiting.
llvm::Error SessionImpl::connectGroups() {
  for (mlir::func::FuncOp function : program->impl().functions.getFunctions())
    for (mlir::Operation &op : function.getOps())
      if (auto communication = llvm::dyn_cast<dist::CommunicationOpInterface>(op)) {
        llvm::Expected<RankGroup> group = ranks->group(axisNames(communication.getAxesAttr()));
        if (!group)
          return group.takeError();
      }
  return llvm::Error::success();
}

llvm::Error SessionImpl::observe(BoundPhase &bound) {
  bound.observers.onOp = options.onOp;
  if (!device->isHost())
    bound.observers.device = device;
  if (options.nameRanges)
    bound.observers.names = device->plugin();
  if (!services.checksReplication)
    return llvm::Error::success();
  bound.observers.checker = std::make_unique<ReplicationChecker>(*ranks);
  if (!options.check.fault || bound.phase != program->microbatchPhases().front() ||
      !microbatch.empty())
    return llvm::Error::success();
  const InjectedFault &fault = *options.check.fault;
  int64_t count = bound.executors.front()->numInstructions();
  if (fault.rank >= ranks->ranks() || fault.op >= count)
    return makeError("a fault on rank " + llvm::Twine(fault.rank) + " in op " +
                     llvm::Twine(fault.op) + ", but there are " + llvm::Twine(ranks->ranks()) +
                     " ranks and " + llvm::Twine(count) + " ops, both counted from 0");
  if (fault.rank == ranks->rank())
    bound.observers.fault = fault.op;
  return llvm::Error::success();
}

llvm::Error SessionImpl::bindPhases() {
  for (const PhaseFunction &part : program->impl().phaseFunctions) {
    byFunction.push_back(nullptr);
    if (!stages.runs(part))
      continue;
    llvm::Expected<std::unique_ptr<BoundPhase>> bound = bindPhase(part);
    if (!bound)
      return bound.takeError();
    byFunction.back() = bound->get();
    auto &list = part.phase == Phase::Unshard  ? unshard
                 : part.phase == Phase::Reduce ? reduce
                 : part.phase == Phase::Update ? update
                                               : microbatch;
    list.push_back(std::move(*bound));
  }
  // A microbatch's functions run in this order.
  llvm::SmallDenseSet<int64_t> ended;
  for (const std::unique_ptr<BoundPhase> &bound : llvm::reverse(microbatch))
    bound->endsFrame = ended.insert(bound->stage).second;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Values by name
//===----------------------------------------------------------------------===//

llvm::Expected<ConstTensorRef> SessionImpl::result(llvm::StringRef fileName) {
  auto lookUp = [&](llvm::ArrayRef<ValueInfo> values, std::vector<at::Tensor> &tensors) {
    for (auto [index, value] : llvm::enumerate(values))
      if (value.fileName == fileName)
        return &tensors[index];
    return static_cast<at::Tensor *>(nullptr);
  };
  at::Tensor *state = lookUp(program->weights(), weights);
  if (!state)
    state = lookUp(program->optimizerStates(), optimizerStates);
  ConstTensorRef found;
  bool isThere = true;
  if (state) {
    if (!state->defined())
      return makeError("value '" + fileName + "' was lost in a failed run");
    if (llvm::Error error = guarded([&] { found = views.forReading(*state); }))
      return error;
    return found;
  }
  llvm::Error error = guarded([&] {
    c10::InferenceMode inferenceMode;
    shown = at::Tensor();
    if (auto member = memberIndex.find(fileName); member != memberIndex.end()) {
      auto [bucket, index] = member->second;
      shown = bucket->peek(index);
      isThere = shown.defined();
    } else if (auto place = resultIndex.find(fileName);
               place != resultIndex.end() && results[place->second].isTensor()) {
      at::Tensor &tensor = results[place->second].toTensor();
      if (!tensor.is_contiguous())
        tensor = tensor.contiguous();
      // Another holder would keep the next run from overwriting it.
      if (device->isHost())
        found = refTo(tensor);
      else
        shown = tensor;
    } else {
      isThere = false;
    }
    if (shown.defined()) {
      shown = device->toHost(shown);
      found = refTo(shown);
    }
  });
  if (error)
    return error;
  if (isThere)
    return found;
  if (!memberIndex.contains(fileName) && !resultIndex.contains(fileName))
    return makeError("program '" + program->path() + "' has no value named '" + fileName + "'");
  return makeError("value '" + fileName + "' is not there: run a microbatch first");
}
