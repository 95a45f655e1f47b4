//===- Kernels.cpp - the table of ops with a kernel of their own -------------===//

#include "runtime/exec/Kernels.h"

#include "llvm/ADT/StringMap.h"

using namespace cleave::runtime;

const Kernel *cleave::runtime::findKernel(llvm::StringRef opName) {
  static const llvm::StringMap<Kernel> table = {
      {"train.accumulate", {bindAccumulate}},
      {"train.learning_rate", {bindLearningRate}},
      {"train.adamw", {bindAdamW, batchesOptimizerSteps}},
      {"train.sgd", {bindSGD, batchesOptimizerSteps}},
      {"dist.all_reduce", {bindAllReduce}},
      {"aten.rng_native_dropout", {bindRngNativeDropout}},
      {"aten.rng_bernoulli", {bindRngBernoulli}},
      {"aten.rng_uniform", {bindRngUniform}},
      {"aten.rng_normal", {bindRngNormal}},
  };
  auto found = table.find(opName);
  return found == table.end() ? nullptr : &found->second;
}
