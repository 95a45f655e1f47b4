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
      {"dist.all_gather", {bindCommunication}},
      {"dist.all_reduce", {bindCommunication}},
      {"dist.all_to_all", {bindCommunication}},
      {"dist.axis_index", {bindAxisIndex}},
      {"dist.barrier", {bindCommunication}},
      {"dist.broadcast", {bindCommunication}},
      {"dist.convert", {bindConvert}},
      {"dist.fake_broadcast", {bindAlias}},
      {"dist.fake_gather", {bindCommunication}},
      {"dist.fake_reduce", {bindCommunication}},
      {"dist.fake_scatter", {bindFakeScatter}},
      {"dist.gather", {bindCommunication}},
      {"dist.permute", {bindCommunication}},
      {"dist.receive", {bindCommunication}},
      {"dist.reduce", {bindCommunication}},
      {"dist.reduce_scatter", {bindCommunication}},
      {"dist.reinterpret", {bindAlias}},
      {"dist.scatter", {bindCommunication}},
      {"dist.send", {bindCommunication}},
      {"dist.shift", {bindCommunication}},
      {"dist.wait", {bindWait}},
      {"train.contribute", {bindContribute}},
      {"train.contribute_mm", {bindContributeMm}},
      {"train.reduce_bucket", {bindReduceBucket}},
      {"train.wait_bucket", {bindWaitBucket}},
      {"aten.rng_native_dropout", {bindRngNativeDropout}},
      {"aten.rng_bernoulli", {bindRngBernoulli}},
      {"aten.rng_uniform", {bindRngUniform}},
      {"aten.rng_normal", {bindRngNormal}},
      {"exec.launch", {bindLaunch}},
      {"exec.record", {bindRecord}},
      {"exec.wait", {bindWaitEvent}},
  };
  auto found = table.find(opName);
  return found == table.end() ? nullptr : &found->second;
}
