//===- StepContext.cpp - what the runners of a session's steps share ----------===//

#include "runtime/step/StepContext.h"

#include <ATen/ops/full.h>

#include <cmath>

using namespace cleave::runtime;

StepContext::StepContext(const Program &program, const SessionOptions &options)
    : program(program), options(options), device(options.device ? *options.device : Device::host()),
      reporter(options.onAction, device) {}

void StepContext::fillSeeds() {
  c10::InferenceMode inferenceMode;
  double equal = options.lossSeed.value_or(1.0 / double(totalMicrobatches()));
  double scale = lossScale ? lossScale->scale : 1;
  for (auto [index, seed] : llvm::enumerate(state.seeds))
    seed.fill_((lossSeeds.empty() ? equal : lossSeeds[index]) * scale);
}

//===----------------------------------------------------------------------===//
// The scale of the loss
//===----------------------------------------------------------------------===//

bool StepContext::isSkipped() const {
  if (!lossScale)
    return false;
  const at::Tensor &flag =
      state.stageSums[*places.stageSum(cleave::train::kNonFiniteGradients)].total;
  return flag.defined() && !std::isfinite(device.toHost(flag).item<double>());
}

void StepContext::setLossScale(const LossScale &scale) {
  c10::InferenceMode inferenceMode;
  lossScale = scale;
  skippedSteps = scale.skipped;
  state.lossScale.fill_(scale.scale);
  fillSeeds();
}

void StepContext::adjustLossScale() {
  if (!lossScale)
    return;
  // torch._amp_update_scale_
  LossScale next = *lossScale;
  if (isSkipped()) {
    next = {float(next.scale * lossScaling.backoff), 0, next.skipped + 1};
  } else if (++next.steps == lossScaling.interval) {
    next.steps = 0;
    if (auto grown = float(next.scale * lossScaling.growth); std::isfinite(grown))
      next.scale = grown;
  }
  setLossScale(next);
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

void StepContext::beginStep(int64_t step) {
  c10::InferenceMode inferenceMode;
  state.rngSeed.fill_(static_cast<int64_t>(options.seed));
  state.setStep(step);
  for (c10::IValue &value : state.results)
    value = c10::IValue();
  for (std::vector<at::Tensor> &parts : state.outputs)
    parts.clear();
  for (StageSum &sum : state.stageSums) {
    llvm::fill(sum.terms, at::Tensor());
    sum.total = at::Tensor();
  }
}

at::Tensor StepContext::makeOffset(int64_t step, int64_t index) const {
  if (services.drawsOnDevice)
    return at::full({}, randomOffset(step, index), device.options(DType::I64));
  at::Tensor offset = allocate({DType::I64, {}});
  *offset.mutable_data_ptr<int64_t>() = randomOffset(step, index);
  return offset;
}
