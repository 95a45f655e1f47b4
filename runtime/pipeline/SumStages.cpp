//===- SumStages.cpp - sums over the stages of all ranks -----------------------===//

#include "runtime/comm/Collectives.h"
#include "runtime/pipeline/ScheduledRunner.h"

#include <ATen/ops/zeros.h>

using namespace cleave::runtime;

/// Each rank has the terms of its stages: the ranks exchange them as rows, zeros where another rank
/// has the term, so that all add the same numbers in the order of stages, as one process does.
llvm::Error ScheduledRunner::sumStages(const ScheduledAction &entry) {
  int64_t begin = now();
  const StageSumExchange &exchange = list.sums[entry.sum];
  StageSum &sum = context.state.stageSums[stageSums[entry.sum]];
  const auto stages = static_cast<int64_t>(sum.terms.size());
  c10::IntArrayRef shape(exchange.type.shape.data(), exchange.type.shape.size());
  at::Tensor rows = at::zeros({stages, c10::multiply_integers(shape)},
                              context.device.options(exchange.type.dtype));
  for (int64_t stage = 0; stage < stages; ++stage)
    if (sum.terms[stage].defined())
      rows[stage].copy_(sum.terms[stage].reshape({-1}));
  PendingOr pending = startAllReduce(group, {rows}, {ReductionKind::Sum}, entry.text);
  if (!pending)
    return pending.takeError();
  llvm::Expected<Pending::Tensors> all = pending->wait();
  if (!all)
    return all.takeError();
  for (int64_t stage = 0; stage < stages; ++stage)
    if (exchange.hasTerm[stage])
      sum.terms[stage] = all->front().view({stages, -1})[stage].view(shape);
  sum.add();
  observe(entry, begin, begin);
  return llvm::Error::success();
}
