//===- SessionImpl.cpp - state of a session, and how steps use it ------------===//

#include "runtime/exec/SessionImpl.h"

#include <ATen/ops/zeros_like.h>

using namespace cleave::runtime;

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<SessionImpl>> SessionImpl::create(const Program &program,
                                                                 const SessionOptions &options) {
  auto session = std::make_unique<SessionImpl>();
  session->program = &program;
  session->options = options;
  auto ranks = RankGrid::create(program.mesh(), options.communicator);
  if (!ranks)
    return ranks.takeError();
  session->ranks = std::move(*ranks);
  session->services = {session->ranks.get(), &session->random};
  for (const ValueInfo &value : program.inputs())
    if (value.batch && !value.over.empty())
      session->part = session->ranks->along(value.over);
  if (llvm::Error error = session->checkMicrobatches())
    return error;

  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    failure = session->allocateState();
    if (!failure)
      failure = session->bindPhase(Phase::Microbatch, session->microbatch,
                                   session->microbatchArguments, session->microbatchResults);
    if (!failure && program.hasUpdate())
      failure = session->bindPhase(Phase::Update, session->update, session->updateArguments,
                                   session->updateResults);
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  return session;
}

llvm::Error SessionImpl::checkMicrobatches() const {
  if (options.microbatches < 1)
    return makeError("expected at least one microbatch, found " +
                     llvm::Twine(options.microbatches));
  if (options.microbatches == 1 || !program->hasUpdate())
    return llvm::Error::success();
  llvm::StringMap<char> accumulated;
  for (const ValueInfo &value : program->arguments(Phase::Microbatch))
    if (value.role == RoleKind::Accumulator)
      accumulated.try_emplace(value.name);
  for (const ValueInfo &value : program->arguments(Phase::Update))
    if (value.role == RoleKind::Gradient && !accumulated.contains(value.name))
      return makeError("the program does not accumulate the gradient of '" + value.name +
                       "', so it runs one microbatch a step, not " +
                       llvm::Twine(options.microbatches));
  return llvm::Error::success();
}

llvm::Error SessionImpl::allocateState() {
  auto allocateAll = [](llvm::ArrayRef<ValueInfo> values, std::vector<at::Tensor> &tensors) {
    for (const ValueInfo &value : values)
      tensors.push_back(allocate(value.type));
  };
  allocateAll(program->weights(), weights);
  allocateAll(program->inputs(), inputs);
  allocateAll(program->optimizerStates(), optimizerStates);
  for (at::Tensor &state : optimizerStates)
    state.zero_();
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
  results.resize(program->results(Phase::Microbatch).size());

  for (const ValueInfo &value : program->arguments(Phase::Microbatch))
    if (value.role == RoleKind::Seed)
      seed = allocate(value.type);
  step = allocate({DType::F32, {}});
  rngSeed = allocate({DType::I64, {}});
  rngOffset = allocate({DType::I64, {}});
  return llvm::Error::success();
}

llvm::Expected<SessionImpl::Place> SessionImpl::placeArgument(const ValueInfo &value) const {
  switch (value.role) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::Constant:
    return Place{Place::Weight, weightIndex.lookup(value.name)};
  case RoleKind::Input:
  case RoleKind::Target:
    return Place{Place::Input, inputIndex.lookup(value.name)};
  case RoleKind::OptimizerState:
    return Place{Place::State, stateIndex.lookup(stateKey(value.name, value.slot))};
  case RoleKind::Accumulator:
  case RoleKind::Gradient:
    return Place{Place::Result, gradientIndex.lookup(value.name), /*isTied=*/true};
  case RoleKind::Seed:
    return Place{Place::Seed};
  case RoleKind::Step:
    return Place{Place::Step};
  case RoleKind::RngSeed:
    return Place{Place::RngSeed};
  case RoleKind::RngOffset:
    return Place{Place::RngOffset};
  case RoleKind::Loss:
  case RoleKind::Output:
    break;
  }
  return makeError("argument '" + value.fileName + "' has a role that only results have");
}

SessionImpl::Place SessionImpl::placeResult(const ValueInfo &value, size_t index) const {
  switch (value.role) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
    return {Place::Weight, weightIndex.lookup(value.name), true};
  case RoleKind::OptimizerState:
    return {Place::State, stateIndex.lookup(stateKey(value.name, value.slot)), true};
  default:
    return {Place::Result, index};
  }
}

llvm::Error SessionImpl::bindPhase(Phase phase, std::unique_ptr<Executor> &executor,
                                   std::vector<Place> &argumentPlaces,
                                   std::vector<Place> &resultPlaces) {
  for (auto [index, value] : llvm::enumerate(program->results(phase)))
    resultPlaces.push_back(placeResult(value, index));
  for (const ValueInfo &value : program->arguments(phase)) {
    llvm::Expected<Place> place = placeArgument(value);
    if (!place)
      return place.takeError();
    for (const Place &result : resultPlaces)
      if (result.isTied && result.kind == place->kind && result.index == place->index)
        place->isTied = true;
    argumentPlaces.push_back(*place);
  }
  llvm::Expected<BoundFunction> bound = Binder(program->impl().function(phase), services).bind();
  if (!bound)
    return makeError("program '" + program->path() + "': " + llvm::toString(bound.takeError()));
  executor = std::make_unique<Executor>(std::move(*bound), phase);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

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

/// Tied state is moved into the frame: so the function sees that it alone holds it and may
/// overwrite it; the new value comes back with the results.
void SessionImpl::fillArguments(Executor &executor, const std::vector<Place> &places,
                                bool isFirst) {
  for (auto [index, place] : llvm::enumerate(places)) {
    c10::IValue &slot = executor.argument(index);
    switch (place.kind) {
    case Place::Weight:
    case Place::State:
      slot = place.isTied ? std::move(*state(place)) : *state(place);
      break;
    case Place::Input:
      slot = inputs[place.index];
      break;
    case Place::Result:
      slot = isFirst ? c10::IValue() : std::move(results[place.index]);
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
      slot = rngOffset;
      break;
    }
  }
}

llvm::Error SessionImpl::storeResults(std::vector<c10::IValue> values,
                                      const std::vector<Place> &places) {
  return guarded([&] {
    c10::InferenceMode inferenceMode;
    for (auto [place, value] : llvm::zip_equal(places, values)) {
      at::Tensor *target = state(place);
      if (!target) {
        results[place.index] = std::move(value);
        continue;
      }
      // State is flat memory of its own: two results may be views of one value.
      at::Tensor tensor = std::move(value).toTensor();
      if (!tensor.is_contiguous() || !isSoleOwner(tensor))
        tensor = tensor.clone(at::MemoryFormat::Contiguous);
      *target = std::move(tensor);
    }
  });
}

llvm::Error SessionImpl::runMicrobatch(int64_t stepNumber, int64_t index) {
  if (stepNumber < 1 || index < 0 || index >= options.microbatches)
    return makeError("there is no microbatch " + llvm::Twine(index) + " of step " +
                     llvm::Twine(stepNumber) + ": steps count from 1, microbatches from 0 to " +
                     llvm::Twine(options.microbatches - 1));
  int64_t total = options.microbatches * part.count;
  if (llvm::Error error = guarded([&] {
        c10::InferenceMode inferenceMode;
        if (seed.defined())
          seed.fill_(options.lossSeed.value_or(1.0 / double(total)));
        *rngSeed.mutable_data_ptr<int64_t>() = static_cast<int64_t>(options.seed);
        *rngOffset.mutable_data_ptr<int64_t>() =
            ((stepNumber - 1) * total + part.index * options.microbatches + index) *
            program->draws();
        fillArguments(*microbatch, microbatchArguments, index == 0);
      }))
    return error;
  // Gradients that are accumulated are in the frame by now; nothing else is needed any more.
  for (c10::IValue &value : results)
    value = c10::IValue();
  std::vector<c10::IValue> values;
  if (llvm::Error error = microbatch->run(values, options.onOp))
    return error;
  return storeResults(std::move(values), microbatchResults);
}

llvm::Error SessionImpl::runUpdate(int64_t stepNumber) {
  if (!update)
    return makeError("program '" + program->path() +
                     "' has no update function; export it with an optimizer to train");
  for (const Place &place : updateArguments)
    if (place.kind == Place::Result && results[place.index].isNone())
      return makeError("there are no gradients for an update of step " + llvm::Twine(stepNumber) +
                       ": run its microbatches first");
  *step.mutable_data_ptr<float>() = static_cast<float>(stepNumber);
  fillArguments(*update, updateArguments, /*isFirst=*/false);
  std::vector<c10::IValue> values;
  if (llvm::Error error = update->run(values, options.onOp))
    return error;
  return storeResults(std::move(values), updateResults);
}

//===----------------------------------------------------------------------===//
// Values by name
//===----------------------------------------------------------------------===//

llvm::Expected<ConstTensorRef> SessionImpl::result(llvm::StringRef fileName) {
  auto present = [&](const at::Tensor &tensor) -> llvm::Expected<ConstTensorRef> {
    if (!tensor.defined())
      return makeError("value '" + fileName + "' was lost in a failed run");
    return ConstTensorRef(refTo(tensor));
  };
  auto lookUp = [&](llvm::ArrayRef<ValueInfo> values, std::vector<at::Tensor> &tensors) {
    for (auto [index, value] : llvm::enumerate(values))
      if (value.fileName == fileName)
        return &tensors[index];
    return static_cast<at::Tensor *>(nullptr);
  };
  if (at::Tensor *weight = lookUp(program->weights(), weights))
    return present(*weight);
  if (at::Tensor *state = lookUp(program->optimizerStates(), optimizerStates))
    return present(*state);
  auto found = resultIndex.find(fileName);
  if (found == resultIndex.end())
    return makeError("program '" + program->path() + "' has no value named '" + fileName + "'");
  c10::IValue &value = results[found->second];
  if (value.isNone())
    return makeError("value '" + fileName + "' is not there: run a microbatch first");
  at::Tensor &tensor = value.toTensor();
  if (llvm::Error error = guarded([&] {
        c10::InferenceMode inferenceMode;
        if (!tensor.is_contiguous())
          tensor = tensor.contiguous();
      }))
    return error;
  return present(tensor);
}
