//===- Lower.cpp - plans memory and streams of functions ----------------------===//

#include "lib/memory/plan/Lower.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/plan/Events.h"
#include "lib/memory/plan/FramePlanner.h"
#include "lib/memory/plan/Packing.h"
#include "lib/memory/plan/Plot.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// Each gradient is added up where it is made, or all of them would be there at once; one that
/// communication brings at the end, since nothing waits for it before.
static void sinkGradients(Block &block) {
  for (auto accumulate : llvm::to_vector(block.getOps<train::AccumulateOp>())) {
    SmallVector<Operation *> moved = memory::getPrivateViews(accumulate.getGradient());
    Value brought = moved.empty() ? Value(accumulate.getGradient()) : moved.front()->getOperand(0);
    moved.push_back(accumulate);
    Operation *producer = brought.getDefiningOp();
    if (producer && runsOnCommunication(producer)) {
      for (Operation *op : moved)
        op->moveBefore(block.getTerminator());
      continue;
    }
    Operation *last = nullptr;
    for (Value operand : accumulate->getOperands())
      if (Operation *op = operand.getDefiningOp())
        if (!last || last->isBeforeInBlock(op))
          last = op;
    if (last)
      accumulate->moveAfter(last);
    else
      accumulate->moveBefore(&block, block.begin());
  }
}

/// Brings optimizer steps together, which one call then executes: each is put off until an op needs
/// what one of them has made, or until a bucket of others is waited for, whose reduction they run
/// beside.
static void joinOptimizerSteps(Block &block) {
  llvm::SetVector<Operation *> waiting;
  auto flush = [&](Operation *before) {
    for (Operation *step : waiting)
      step->moveBefore(before);
    waiting.clear();
  };
  for (Operation &op : llvm::make_early_inc_range(block)) {
    bool needsOne = llvm::any_of(
        op.getOperands(), [&](Value operand) { return waiting.contains(operand.getDefiningOp()); });
    if (needsOne || isa<train::WaitBucketOp>(op) || op.hasTrait<OpTrait::IsTerminator>())
      flush(&op);
    if (isOptimizerStep(&op))
      waiting.insert(&op);
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

static void placeInArena(Buffers &buffers, int64_t alignment, LoweringSummary &summary) {
  std::vector<Interval> intervals;
  std::vector<Buffer *> planned;
  for (Buffer &buffer : buffers.all())
    if (buffer.kind == Buffer::Planned && buffer.memory.kind != ResultMemory::Frame) {
      intervals.push_back({buffer.begin, buffer.end, buffer.bytes});
      planned.push_back(&buffer);
    }
  Packing packing = packIntervals(intervals, alignment);
  for (auto [buffer, offset] : llvm::zip_equal(planned, packing.offsets))
    buffer->memory = {ResultMemory::Arena, offset, 0};
  summary.arenaBytes = packing.bytes;
  summary.lowerBound = packing.lowerBound;
}

static void writeMemory(func::FuncOp function, const Buffers &buffers, LoweringSummary &summary) {
  for (Operation &op : function.front()) {
    SmallVector<ResultMemory> memory;
    for (OpResult result : op.getResults()) {
      if (std::optional<unsigned> operand = buffers.sharedOperand(result)) {
        memory.push_back({ResultMemory::Same, 0, *operand});
        ++summary.shared;
        continue;
      }
      const Buffer &buffer = *buffers.of(result);
      memory.push_back(buffer.memory);
      if (buffer.kind == Buffer::Planned) {
        ++(buffer.memory.kind == ResultMemory::Frame ? summary.inFrame : summary.inArena);
        continue;
      }
      ++summary.apart[buffer.reason];
      summary.apartBytes[buffer.reason] += buffer.bytes;
    }
    if (!memory.empty())
      setResultMemory(&op, memory);
  }
  summary.inPlace = buffers.numInPlace();
}

static void writeStreams(func::FuncOp function) {
  Builder builder(function.getContext());
  int64_t calls = 0;
  for (Operation &op : function.front()) {
    Stream stream = findStream(&op);
    if (stream == Stream::Compute)
      continue;
    op.setDiscardableAttr(kStreamAttrName, StreamAttr::get(function.getContext(), stream));
    if (isCommunicatorCall(&op))
      op.setDiscardableAttr(kCallAttrName, builder.getI64IntegerAttr(calls++));
  }
}

/// The function's values in the frame have their places.
static LoweringSummary lowerFunction(const PlannedFunction &planned, const FramePlan &frame,
                                     const LoweringOptions &options, ArenaPlot *plot) {
  func::FuncOp function = planned.function;
  LoweringSummary summary;
  summary.frameBytes = frame.packing.bytes;
  summary.frameLowerBound = frame.packing.lowerBound;
  placeInArena(*planned.buffers, options.alignment, summary);
  if (plot)
    plot->add(function.getName(), *planned.order, *planned.buffers, summary.arenaBytes);
  std::vector<Event> events = planEvents(function, *planned.order, *planned.buffers);
  summary.events = events.size();

  MLIRContext *context = function.getContext();
  StringAttr chip =
      options.target == Family::Cuda ? StringAttr::get(context, options.chip) : StringAttr();
  writeMemory(function, *planned.buffers, summary);
  writeStreams(function);
  insertEvents(function, *planned.order, events);
  function->setDiscardableAttr(kLoweredAttrName,
                               LoweredAttr::get(context, options.target, chip, summary.arenaBytes,
                                                summary.frameBytes, options.alignment));
  return summary;
}

void cleave::exec::lowerProgram(
    ModuleOp module, const LoweringOptions &options, ArenaPlot *plot,
    llvm::function_ref<void(func::FuncOp, const LoweringSummary &)> report) {
  for (const FunctionGroup &group : findFunctionGroups(module)) {
    std::vector<PlannedFunction> functions;
    for (func::FuncOp function : group.functions) {
      dropLowering(function);
      sinkGradients(function.front());
      joinOptimizerSteps(function.front());
      PlannedFunction &planned = functions.emplace_back();
      planned.function = function;
      planned.order = std::make_unique<ExecutionOrder>(function);
      planned.buffers = std::make_unique<Buffers>(function, *planned.order,
                                                  /*spread=*/options.target == Family::Cuda);
    }
    FramePlan frame;
    if (group.hasFrame)
      frame = planFrame(functions, options.alignment);
    if (plot)
      plot->add(functions, frame);
    for (const PlannedFunction &planned : functions)
      report(planned.function, lowerFunction(planned, frame, options, plot));
  }
}
