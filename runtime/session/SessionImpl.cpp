//===- SessionImpl.cpp - making a session, and its values by name -------------===//

#include "runtime/session/SessionImpl.h"
#include "runtime/exec/DeviceKernels.h"
#include "runtime/exec/DistOps.h"
#include "runtime/exec/RandomPhilox.h"
#include "runtime/io/Error.h"
#include "runtime/kernels/CpuKernels.h"
#include "runtime/pipeline/ScheduledRunner.h"
#include "runtime/program/Form.h"
#include "runtime/program/RateSchedule.h"
#include "runtime/session/CheckSession.h"
#include "runtime/step/RecordedRunner.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cmath>
#include <limits>
#include <mutex>

using namespace cleave::runtime;

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<SessionImpl>> SessionImpl::create(const Program &program,
                                                                 const SessionOptions &options) {
  std::unique_ptr<SessionImpl> session(new SessionImpl(program, options));
  if (llvm::Error error = session->connect())
    return error;
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    failure = session->prepare();
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  return session;
}

/// Places the rank on the mesh, and checks that program, ranks and options fit each other.
llvm::Error SessionImpl::connect() {
  const Program &program = context.program;
  const SessionOptions &options = context.options;
  auto ranks = RankGrid::create(program, options.communicator);
  if (!ranks)
    return ranks.takeError();
  context.ranks = std::move(*ranks);
  context.stages = StageMap(program, *context.ranks);
  for (const ValueInfo &value : program.inputs())
    if (value.batch && !value.over.empty() && !program.isTyped())
      context.part = context.ranks->along(value.over);
  if (llvm::Error error = checkReplicable(program, options))
    return error;
  if (llvm::Error error = checkAdopted(program, options))
    return error;
  if (llvm::Error error = findKernels())
    return error;
  if (llvm::Error error = checkMicrobatches(program, options, context.stages.isScheduled()))
    return error;
  return checkActions(program, context.stages.isScheduled());
}

llvm::Error SessionImpl::findKernels() {
  mlir::ModuleOp module = *context.program.impl().module;
  auto take = [&](auto kernels) -> llvm::Error {
    if (!kernels)
      return makeError("program '{0}': {1}", context.program.path(),
                       llvm::toString(kernels.takeError()));
    context.kernels = std::move(*kernels);
    return llvm::Error::success();
  };
  llvm::StringRef target = context.options.kernels;
  llvm::Error error = context.device.isHost()
                          ? take(CpuKernels::create(module, target))
                          : take(DeviceKernels::create(module, target, context.device));
  if (error)
    return error;
  if (!hasKernels(context.program) && target != "best" && target != "none")
    return makeError("program '{0}': --kernels {1} expects a program with kernels (cleave-opt "
                     "--fuse-kernels --compile-kernels), found none",
                     context.program.path(), target);
  return llvm::Error::success();
}

/// Allocates the state, and binds the functions to it. May throw.
llvm::Error SessionImpl::prepare() {
  const Program &program = context.program;
  const SessionOptions &options = context.options;
  if (llvm::Error error = connectGroups())
    return error;
  Services &services = context.services;
  services.ranks = context.ranks.get();
  services.random = &context.random;
  services.buckets = &context.buckets;
  // A single rank has nothing to compare with.
  services.checksReplication = options.check.isOn && context.ranks->ranks() > 1;
  services.device = &context.device;
  if (!context.kernels->target().empty())
    services.kernels = context.kernels.get();
  services.arena = &context.arena;
  services.poisonsDeadMemory = options.poisonsDeadMemory;
  services.frameEnds = &context.frameEnds;
  services.drawsOnDevice = canDrawOnDevice(program, context.device);
  services.rateReductions = &context.rateReductions;
  lastStep = findLastStep(program);

  auto addGroup = [&](auto op) {
    if (std::optional<int64_t> group = op.getGroup())
      context.learningRates.resize(std::max<size_t>(context.learningRates.size(), *group + 1),
                                   std::numeric_limits<double>::quiet_NaN());
  };
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    for (mlir::Operation &op : mlir::func::FuncOp(part.function).getOps())
      llvm::TypeSwitch<mlir::Operation *>(&op).Case<train::LearningRateOp, train::HyperparameterOp>(
          addGroup);
  services.learningRates = &context.learningRates;

  context.places = PlaceIndex(program, context.stages, /*keepsInputs=*/context.isDeferred());
  context.state.allocate(program, context.stages, context.places, options, context.device,
                         services.drawsOnDevice ? context.device : Device::host());
  if (std::optional<LossScaling> scaling = findLossScaling(program)) {
    context.lossScaling = *scaling;
    context.setLossScale({float(scaling->init), 0, 0});
  }
  context.fillSeeds();
  for (auto [value, tensor] : llvm::zip_equal(program.weights(), context.state.weights))
    stateFiles[value.fileName] = &tensor;
  for (auto [value, tensor] :
       llvm::zip_equal(program.optimizerStates(), context.state.optimizerStates))
    stateFiles[value.fileName] = &tensor;
  if (llvm::Error error = makeBuckets())
    return error;
  if (llvm::Error error = context.allocateArena())
    return error;
  if (llvm::Error error = bindPhases(context))
    return error;
  return makeRunner();
}

/// Connects all groups of ranks that the program's ops need. After that nothing speaks to other
/// ranks until the program runs: what is wrong on one of them cannot leave the others waiting.
llvm::Error SessionImpl::connectGroups() {
  for (mlir::func::FuncOp function : context.program.impl().functions.getFunctions())
    for (mlir::Operation &op : function.getOps())
      if (auto communication = llvm::dyn_cast<dist::CommunicationOpInterface>(op)) {
        llvm::Expected<RankGroup> group =
            context.ranks->group(axisNames(communication.getAxesAttr()));
        if (!group)
          return group.takeError();
      }
  return llvm::Error::success();
}

llvm::Error SessionImpl::makeBuckets() {
  const Program &program = context.program;
  llvm::StringSet<> needed;
  for (const PhaseFunction &part : program.impl().phaseFunctions)
    if (context.stages.runs(part))
      for (const ValueInfo &value : part.signature.results)
        if (!value.members.empty())
          needed.insert(value.name);
  BucketSet &buckets = context.buckets;
  for (train::BucketOp op : program.impl().module.get().getOps<train::BucketOp>()) {
    if (context.stages.isScheduled() && !needed.contains(op.getSymName()))
      continue;
    auto bucket =
        Bucket::create(op, *context.ranks, context.device, context.options, buckets.replicaSums);
    if (!bucket)
      return makeError("program '{0}': {1}", program.path(), llvm::toString(bucket.takeError()));
    buckets[op.getSymName()] = std::move(*bucket);
  }
  for (const ValueInfo &value : program.results(Phase::Microbatch))
    if (auto bucket = buckets.find(value.name); bucket != buckets.end())
      for (auto [index, member] : llvm::enumerate(value.members))
        bucketMembers[member.fileName] = {bucket->second.get(), index};
  return llvm::Error::success();
}

llvm::Error SessionImpl::makeRunner() {
  if (context.stages.isScheduled()) {
    auto scheduled = ScheduledRunner::create(context);
    if (!scheduled)
      return makeError("program '{0}': {1}", context.program.path(),
                       llvm::toString(scheduled.takeError()));
    runner = std::move(*scheduled);
  }
  if (context.options.recordGraphs) {
    graphRefusal = explainNoGraphs(context);
    if (graphRefusal.empty())
      runner = std::make_unique<RecordedRunner>(context);
  }
  if (!runner)
    runner = std::make_unique<SequentialRunner>(context);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

llvm::Error SessionImpl::checkUpdate(int64_t step) const {
  if (context.program.hasUpdate())
    return checkScheduledSteps(context.program, lastStep, step);
  return makeError("program '{0}' has no update function; export it with an optimizer to train",
                   context.program.path());
}

llvm::Error SessionImpl::runUpdate(int64_t step) {
  if (llvm::Error error = checkUpdate(step))
    return error;
  if (llvm::Error error = runner->runUpdate(step))
    return error;
  return guarded([&] { context.adjustLossScale(); });
}

llvm::Error SessionImpl::setLossScale(const LossScale &scale) {
  if (!context.lossScale) {
    context.skippedSteps = scale.skipped;
    return llvm::Error::success();
  }
  return guarded([&] { context.setLossScale(scale); });
}

llvm::Error SessionImpl::setLossSeeds(llvm::ArrayRef<double> seeds) {
  if (int64_t(seeds.size()) != context.options.microbatches)
    return makeError("expected a seed of the loss for each of {0} microbatches, found {1}",
                     context.options.microbatches, seeds.size());
  context.lossSeeds.assign(seeds.begin(), seeds.end());
  return guarded([&] { context.fillSeeds(); });
}

llvm::Error SessionImpl::checkLossSeeds() const {
  bool isKnown = context.totalMicrobatches() == 1 || context.options.lossSeed ||
                 !context.lossSeeds.empty() || context.state.seeds.empty();
  if (isKnown || !hasTargetMean(context.program))
    return llvm::Error::success();
  return makeError("program '{0}': the mean of its loss is over targets, and its step has {1} "
                   "microbatches: expected the share of each (Session::setLossSeeds)",
                   context.program.path(), context.totalMicrobatches());
}

llvm::Error SessionImpl::runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done) {
  if (llvm::Error error = checkUpdate(step))
    return error;
  if (llvm::Error error = checkLossSeeds())
    return error;
  if (llvm::Error error = guarded([&] {
        if (hasFailed)
          context.state.restoreAdopted(context.program, context.device);
        takeGenerator(step);
      }))
    return error;
  hasFailed = true;
  if (llvm::Error error = runner->runStep(step, fill, done))
    return error;
  hasFailed = false;
  return guarded([&] {
    context.adjustLossScale();
    leaveGenerator(step);
  });
}

void SessionImpl::takeGenerator(int64_t step) {
  if (!context.options.followsDefaultGenerator || context.program.draws() == 0)
    return;
  at::Generator process = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(process.mutex());
  context.random.continueFrom(process.get<at::CPUGeneratorImpl>()->engine(), context.options.seed,
                              uint64_t(context.stepOffset(step)));
}

void SessionImpl::leaveGenerator(int64_t step) {
  if (!context.options.followsDefaultGenerator || context.program.draws() == 0)
    return;
  at::Generator &reached = context.random.seek(context.options.seed, context.stepOffset(step + 1));
  at::Generator process = at::detail::getDefaultCPUGenerator();
  std::lock_guard<std::mutex> lock(process.mutex());
  process.get<at::CPUGeneratorImpl>()->set_engine(reached.get<at::CPUGeneratorImpl>()->engine());
}

llvm::Error SessionImpl::setLearningRate(int64_t group, double rate) {
  if (group < 0 || size_t(group) >= context.learningRates.size())
    return makeError(
        "program '{0}' has no learning rate of parameter group {1}: its train.learning_"
        "rate ops have {2} groups",
        context.program.path(), group, context.learningRates.size());
  if (!std::isfinite(rate) || rate < 0)
    return makeError("parameter group {0}: expected a learning rate that is finite and not "
                     "negative, found {1}",
                     group, rate);
  context.learningRates[group] = rate;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Values by name
//===----------------------------------------------------------------------===//

llvm::Expected<at::Tensor *> SessionImpl::find(std::vector<at::Tensor> &list,
                                               PlaceIndex::Index index, bool isHere,
                                               const llvm::Twine &what) {
  if (!index)
    return makeError("program '{0}' has no {1}", context.program.path(), what.str());
  at::Tensor *tensor = &list[*index];
  if (!tensor->defined())
    return makeError("{0} {1}", what.str(),
                     isHere ? "was lost in a failed run" : "belongs to another rank's stages");
  return tensor;
}

llvm::Expected<TensorRef> SessionImpl::viewState(llvm::Expected<at::Tensor *> tensor) {
  if (!tensor)
    return tensor.takeError();
  TensorRef ref;
  if (llvm::Error error = guarded([&] { ref = context.state.views.forWriting(**tensor); }))
    return error;
  return ref;
}

llvm::Expected<TensorRef> SessionImpl::weight(llvm::StringRef name) {
  PlaceIndex::Index index = context.places.weight(name);
  bool isHere = !index || context.stages.hasWeight(context.program.weights()[*index].name);
  return viewState(find(context.state.weights, index, isHere, "weight '" + name + "'"));
}

llvm::Expected<TensorRef> SessionImpl::optimizerState(llvm::StringRef parameter,
                                                      llvm::StringRef slot) {
  return viewState(find(context.state.optimizerStates,
                        context.places.optimizerState(parameter, slot),
                        context.stages.hasState(parameter),
                        "optimizer state '" + slot + "' of parameter '" + parameter + "'"));
}

llvm::Expected<TensorRef> SessionImpl::input(llvm::StringRef name) {
  StepState &state = context.state;
  PlaceIndex::Index index = context.places.input(name);
  llvm::Expected<at::Tensor *> tensor =
      find(state.inputs, index, context.stages.hasInput(name), "input '" + name + "'");
  if (!tensor)
    return tensor.takeError();
  if (!state.stagedInputs.isUsed())
    return refTo(**tensor);
  TensorRef ref;
  if (llvm::Error error = guarded([&] { ref = state.stagedInputs.forWriting(*index); }))
    return error;
  return ref;
}

std::vector<ConstTensorRef> SessionImpl::keptOutputs(llvm::StringRef fileName) {
  std::vector<ConstTensorRef> refs;
  if (PlaceIndex::Index index = context.places.result(fileName))
    for (at::Tensor &part : context.state.outputs[*index])
      refs.push_back(refTo(part));
  return refs;
}

llvm::Expected<ConstTensorRef> SessionImpl::result(llvm::StringRef fileName) {
  StepState &state = context.state;
  ConstTensorRef found;
  if (at::Tensor *tensor = stateFiles.lookup(fileName)) {
    if (!tensor->defined())
      return makeError("value '{0}' was lost in a failed run", fileName);
    if (llvm::Error error = guarded([&] { found = state.views.forReading(*tensor); }))
      return error;
    return found;
  }
  auto member = bucketMembers.find(fileName);
  PlaceIndex::Index place = context.places.result(fileName);
  if (member == bucketMembers.end() && !place)
    return makeError("program '{0}' has no value named '{1}'", context.program.path(), fileName);
  bool isThere = true;
  llvm::Error error = guarded([&] {
    c10::InferenceMode inferenceMode;
    shown = at::Tensor();
    if (member != bucketMembers.end()) {
      auto [bucket, index] = member->second;
      shown = bucket->peek(index);
      isThere = shown.defined();
    } else if (state.results[*place].isTensor()) {
      at::Tensor &result = state.results[*place].toTensor();
      if (!result.is_contiguous())
        result = result.contiguous();
      // Another holder would keep the next run from overwriting it.
      if (context.device.isHost())
        found = refTo(result);
      else
        shown = result;
    } else {
      isThere = false;
    }
    if (shown.defined()) {
      shown = context.device.toHost(shown);
      found = refTo(shown);
    }
  });
  if (error)
    return error;
  if (isThere)
    return found;
  return makeError("value '{0}' is not available: run a microbatch first", fileName);
}
