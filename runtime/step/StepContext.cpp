//===- StepContext.cpp - what the runners of a session's steps share ----------===//

#include "runtime/step/StepContext.h"

#include <ATen/ops/full.h>

using namespace cleave::runtime;

StepContext::StepContext(const Program &program, const SessionOptions &options)
    : program(program), options(options), device(options.device ? *options.device : Device::host()),
      reporter(options.onAction, device) {}

void StepContext::fillSeeds() {
  c10::InferenceMode inferenceMode;
  double equal = options.lossSeed.value_or(1.0 / double(totalMicrobatches()));
  for (auto [index, seed] : llvm::enumerate(state.seeds))
    seed.fill_(lossSeeds.empty() ? equal : lossSeeds[index]);
}

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
