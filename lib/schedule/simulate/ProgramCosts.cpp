// From the work of ops to times of actions.
#include "lib/schedule/simulate/ProgramCosts.h"

#include "lib/support/Error.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave::simulate;
using cleave::makeError;

bool StageWork::communicates() const {
  for (const FunctionWork *function :
       {&forward, &backward, &input, &weight, &unshard, &reduce, &update})
    if (llvm::any_of(*function, [](const OpWork &op) { return op.messages > 0; }))
      return true;
  return false;
}

double cleave::simulate::timeOf(const Machine &machine, llvm::ArrayRef<OpWork> function) {
  double clock = 0, stream = 0;
  llvm::DenseMap<int, double> complete;
  for (const OpWork &op : function) {
    if (op.awaits >= 0) {
      clock = std::max(clock, complete.lookup(op.awaits));
      continue;
    }
    if (op.messages == 0) {
      clock += timeOf(machine.device, op.work);
      if (op.work.flops > 0 || op.work.bytes > 0)
        clock += machine.device.opOverhead;
      continue;
    }
    stream = std::max(stream, clock) + machine.collective.latency * op.messages +
             op.sentBytes / machine.collective.bandwidth;
    if (op.starts >= 0)
      complete[op.starts] = stream;
    else
      clock = stream;
  }
  double end = std::max(clock, stream);
  return end == 0 ? 0 : end + machine.device.overhead;
}

llvm::Expected<CostTable> cleave::simulate::costsOfStages(const Machine &machine,
                                                          llvm::ArrayRef<StageWork> stages) {
  constexpr double milliseconds = 1e3;
  CostTable table;
  table.stages.assign(stages.size(), StageCost());
  for (auto [number, stage, cost] : llvm::enumerate(stages, table.stages)) {
    if (stage.communicates() && machine.collective.bandwidth == 0)
      return makeError("stage {0} communicates over mesh axes: expected the machine to have a "
                       "\"collective\" link",
                       number);
    auto time = [&](const FunctionWork &function) {
      return milliseconds * timeOf(machine, function);
    };
    cost.forward = time(stage.forward);
    cost.input = time(stage.input);
    cost.weight = time(stage.weight);
    cost.hasHalves = stage.hasHalves;
    if (stage.hasBackward)
      cost.backward = time(stage.backward);
    cost.sendForward = milliseconds * timeOf(machine.link, stage.forwardBytes);
    cost.sendBackward = milliseconds * timeOf(machine.link, stage.backwardBytes);
    cost.unshard = time(stage.unshard);
    cost.reduce = time(stage.reduce);
    cost.optimizer = time(stage.update);
  }
  if (llvm::Error error = setMemory(table, stages))
    return error;
  return table;
}

llvm::Error cleave::simulate::setMemory(CostTable &table, llvm::ArrayRef<StageWork> stages) {
  if (llvm::Error error = table.checkFor(stages.size()))
    return error;
  table.stages.resize(stages.size(), table.stages.front());
  for (auto [stage, cost] : llvm::zip_equal(stages, table.stages)) {
    cost.forwardMemory = stage.savedBytes;
    cost.weightMemory = stage.heldBytes;
    cost.inputMemory = stage.savedBytes - stage.heldBytes;
  }
  return llvm::Error::success();
}
