//===- StepState.cpp - what steps change --------------------------------------===//

#include "runtime/step/StepState.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

using namespace cleave::runtime;

void StageSum::add() {
  c10::InferenceMode inferenceMode;
  total = at::Tensor();
  for (const at::Tensor &term : terms)
    if (term.defined())
      total = total.defined() ? at::add(total, term) : term;
}

/// A tensor over memory that a caller keeps. It alone refers to it, so that functions may write
/// there as they do to memory of their own.
static at::Tensor adopt(char *home, const TensorType &type, const Device &device) {
  return at::from_blob(home, at::IntArrayRef(type.shape.data(), type.shape.size()),
                       device.options(type.dtype));
}

void StepState::restoreAdopted(const Program &program, const Device &device) {
  auto restore = [&](std::vector<at::Tensor> &tensors, llvm::ArrayRef<char *> homes,
                     llvm::ArrayRef<ValueInfo> values) {
    for (auto [tensor, home, value] : llvm::zip_equal(tensors, homes, values))
      if (home && !tensor.defined())
        tensor = adopt(home, value.type, device);
  };
  restore(weights, weightHomes, program.weights());
  restore(optimizerStates, stateHomes, program.optimizerStates());
}

void StepState::allocate(const Program &program, const StageMap &stages, const PlaceIndex &places,
                         const SessionOptions &options, const Device &device,
                         const Device &drawing) {
  views.setDevice(device);
  stagedInputs.setDevice(device);
  auto allocate = [&](const ValueInfo &value, bool isHere, std::vector<char *> &homes) {
    auto adopted = options.adopted.find(value.fileName);
    bool isAdopted = isHere && adopted != options.adopted.end();
    homes.push_back(isAdopted ? adopted->second.data : nullptr);
    bool isBorrowed = options.borrowed.count(value.fileName) > 0;
    return isAdopted               ? adopt(homes.back(), value.type, device)
           : isHere && !isBorrowed ? device.allocate(value.type)
                                   : at::Tensor();
  };
  for (const ValueInfo &value : program.weights())
    weights.push_back(allocate(value, stages.hasWeight(value.name), weightHomes));
  for (auto [weight, home] : llvm::zip_equal(weights, weightHomes))
    if (weight.defined() && !home)
      views.noteUnwritten(weight);
  for (const ValueInfo &value : program.inputs())
    inputs.push_back(stages.hasInput(value.name) ? device.allocate(value.type) : at::Tensor());
  for (const at::Tensor &input : inputs)
    stagedInputs.add(input);
  for (const ValueInfo &value : program.optimizerStates()) {
    optimizerStates.push_back(allocate(value, stages.hasState(value.name), stateHomes));
    if (optimizerStates.back().defined() && !stateHomes.back())
      optimizerStates.back().zero_();
  }
  results.resize(places.numResults());
  outputs.resize(places.numResults());
  unsharded.resize(places.numUnsharded());
  stageSums.resize(places.numStageSums());
  for (StageSum &sum : stageSums)
    sum.terms.resize(std::max<size_t>(program.numStages(), 1));
  lossScale = device.allocate({DType::F32, {}});
  for (const ValueInfo &value : program.arguments(Phase::Microbatch))
    if (value.role == RoleKind::Seed)
      for (int64_t index = 0; index < options.microbatches; ++index)
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
