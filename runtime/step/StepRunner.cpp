//===- StepRunner.cpp - how a session runs its steps --------------------------===//

#include "runtime/step/StepRunner.h"
#include "runtime/aten/Facade.h"

using namespace cleave::runtime;

StepRunner::~StepRunner() = default;

llvm::Error StepRunner::runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done) {
  if (llvm::Error error = runMicrobatches(step, fill, done))
    return error;
  return runUpdate(step);
}

llvm::Error StepRunner::shareWeights() {
  return llvm::Error::success();
}

at::Tensor StepRunner::stagedLoss() const {
  return at::Tensor();
}
