//===- StepState.cpp - what steps change --------------------------------------===//

#include "runtime/step/StepState.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>

using namespace cleave::runtime;

void StageSum::add() {
  c10::InferenceMode inferenceMode;
  total = at::Tensor();
  for (const at::Tensor &term : terms)
    if (term.defined())
      total = total.defined() ? at::add(total, term) : term;
}

void StepState::allocate(const Program &program, const StageMap &stages, const PlaceIndex &places,
                         int64_t microbatches, const Device &device, const Device &drawing) {
  views.setDevice(device);
  stagedInputs.setDevice(device);
  for (const ValueInfo &value : program.weights())
    weights.push_back(stages.hasWeight(value.name) ? device.allocate(value.type) : at::Tensor());
  for (const ValueInfo &value : program.inputs())
    inputs.push_back(stages.hasInput(value.name) ? device.allocate(value.type) : at::Tensor());
  for (const at::Tensor &input : inputs)
    stagedInputs.add(input);
  for (const ValueInfo &value : program.optimizerStates()) {
    bool isHere = stages.hasState(value.name);
    optimizerStates.push_back(isHere ? device.allocate(value.type).zero_() : at::Tensor());
  }
  results.resize(places.numResults());
  outputs.resize(places.numResults());
  unsharded.resize(places.numUnsharded());
  stageSums.resize(places.numStageSums());
  for (StageSum &sum : stageSums)
    sum.terms.resize(program.numStages());
  for (const ValueInfo &value : program.arguments(Phase::Microbatch))
    if (value.role == RoleKind::Seed)
      for (int64_t index = 0; index < microbatches; ++index)
        seeds.push_back(device.allocate(value.type));
  // These steer ops and are read by the host, unless the device draws random numbers.
  step = cleave::runtime::allocate({DType::F32, {}});
  rngSeed = drawing.allocate({DType::I64, {}});
  rngOffset = drawing.allocate({DType::I64, {}});
}

llvm::Error StepState::closeViews() {
  return views.isOpen() ? guarded([&] { views.close(); }) : llvm::Error::success();
}

std::vector<at::Tensor> StepState::takeInputs(bool areCopied) {
  std::vector<at::Tensor> taken = inputs;
  if (areCopied)
    for (at::Tensor &input : taken)
      if (input.defined())
        input = stagedInputs.isUsed() ? at::empty_like(input) : input.clone();
  if (stagedInputs.isUsed())
    stagedInputs.send(taken);
  return taken;
}
