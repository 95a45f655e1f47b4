//===- FunctionStreams.cpp - what runs beside a function's kernels ------------===//

#include "lib/pipeline/FunctionStreams.h"

#include "dialects/dist/Dist.h"
#include "dialects/exec/Lowered.h"
#include "lib/memory/MemoryPlan.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::pipeline;
using simulate::FunctionWork;
using simulate::OpWork;

FunctionStreams::FunctionStreams(func::FuncOp function)
    : isLowered(bool(exec::getLowered(function))) {}

int FunctionStreams::start(ValueRange results) {
  for (Value result : results)
    numbers[result] = count;
  return count++;
}

std::optional<int> FunctionStreams::find(Value value) const {
  auto found = numbers.find(value);
  return found == numbers.end() ? std::nullopt : std::optional<int>(found->second);
}

/// Nothing runs: it orders what does.
static OpWork makeOrder() {
  OpWork work;
  work.kernels = 0;
  return work;
}

void FunctionStreams::appendCopy(Operation *op, unsigned name, FunctionWork &list) {
  OpWork work = makeOrder();
  work.isToHost = isa<dist::OffloadOp>(op);
  Value onDevice = work.isToHost ? op->getOperand(0) : Value(op->getResult(0));
  work.hostBytes = double(memory::getByteSize(onDevice.getType()));
  if (work.hostBytes == 0)
    return;
  work.hasEvents = isLowered;
  work.name = name;
  if (!work.isToHost && !isLowered)
    reloads[onDevice] = work.starts = count++;
  list.push_back(work);
}

void FunctionStreams::awaitReloads(Operation *op, FunctionWork &list) {
  if (reloads.empty())
    return;
  for (Value operand : op->getOperands()) {
    auto reload = reloads.find(memory::getStorage(operand));
    if (reload == reloads.end())
      continue;
    OpWork wait = makeOrder();
    wait.awaits = reload->second;
    list.push_back(wait);
    reloads.erase(reload);
  }
}

static simulate::Stream getStream(exec::Stream stream) {
  switch (stream) {
  case exec::Stream::Compute:
    return simulate::Stream::Compute;
  case exec::Stream::Communication:
    return simulate::Stream::Communication;
  case exec::Stream::Host:
    return simulate::Stream::Host;
  }
  llvm_unreachable("not a stream");
}

void FunctionStreams::appendEvent(Operation *op, FunctionWork &list) {
  OpWork work = makeOrder();
  work.isEvent = true;
  work.stream = getStream(exec::getStream(op));
  if (auto record = dyn_cast<exec::RecordOp>(op)) {
    // Exactly one op waits for an event.
    exec::Stream waiting = exec::getStream(*record.getEvent().user_begin());
    if (record.getStream() != exec::Stream::Host && waiting != exec::Stream::Host)
      return;
    work.starts = start(op->getResults());
  } else {
    std::optional<int> event = find(cast<exec::WaitOp>(op).getEvent());
    if (!event)
      return;
    work.awaits = *event;
  }
  list.push_back(work);
}
