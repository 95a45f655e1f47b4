//===- SumStages.cpp - sums over the stages of all ranks -----------------------===//

#include "runtime/comm/Collectives.h"
#include "runtime/pipeline/ScheduledRunner.h"

#include <ATen/ops/zeros.h>

using namespace cleave::runtime;

/// Each rank has the terms of its stages: the ranks exchange them as rows, zeros where another rank
/// has the term, so that all add the same numbers in the order of stages, as one process does.
llvm::Error ScheduledRunner::sumStages(const ScheduledAction &entry) {
  int64_t begin = now();
  auto group = context.ranks->group(std::vector{context.program.schedule()->axis});
  if (!group)
    return group.takeError();
  StageSum &sum = context.state.stageSums[*context.places.stageSum(entry.sum)];
  const auto stages = static_cast<int64_t>(sum.terms.size());
  TensorType type;
  std::vector<bool> makes(sum.terms.size());
  for (const PhaseFunction &part : context.program.impl().phaseFunctions)
    for (const ValueInfo &value : part.signature.results)
      if (value.role == RoleKind::StageSum && value.name == entry.sum) {
        type = value.type;
        makes[part.stage] = true;
      }
  llvm::Error failure = llvm::Error::success();
  llvm::Error thrown = guarded([&] {
    c10::InferenceMode inferenceMode;
    c10::IntArrayRef shape(type.shape.data(), type.shape.size());
    at::Tensor rows =
        at::zeros({stages, c10::multiply_integers(shape)}, context.device.options(type.dtype));
    for (int64_t stage = 0; stage < stages; ++stage)
      if (sum.terms[stage].defined())
        rows[stage].copy_(sum.terms[stage].reshape({-1}));
    PendingOr pending = startAllReduce(*group, {rows}, {Reduction::Sum}, entry.text);
    if (!pending) {
      failure = pending.takeError();
      return;
    }
    llvm::Expected<Pending::Tensors> all = pending->wait();
    if (!all) {
      failure = all.takeError();
      return;
    }
    for (int64_t stage = 0; stage < stages; ++stage)
      if (makes[stage])
        sum.terms[stage] = all->front().view({stages, -1})[stage].view(shape);
    sum.add();
  });
  if (llvm::Error error = llvm::joinErrors(std::move(failure), std::move(thrown)))
    return error;
  observe(entry, begin, begin);
  return llvm::Error::success();
}
