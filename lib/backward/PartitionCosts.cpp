//===- PartitionCosts.cpp - what partitions cost, without building them -------===//

#include "lib/backward/PartitionCosts.h"

#include "dialects/dist/Dist.h"
#include "lib/aten/OpCost.h"
#include "lib/backward/Offload.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/Storage.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// The graph in numbers
//===----------------------------------------------------------------------===//

/// What --lower-to-exec rounds the bytes of values up to if nothing else is asked for.
static constexpr int64_t kAlignment = 64;

PartitionCosts::PartitionCosts(const JointGraph &graph, const RecomputeModel &model,
                               const StepForm &step, TimesOfOp timesOf)
    : step(step) {
  number(graph);
  unsigned index = 0;
  for (Operation &op : graph.getFunction().front().without_terminator()) {
    const OpTimes times = timesOf(&op);
    ops[index].time = times.time;
    ops[index++].hiding = times.hiding;
  }
  numOps = unsigned(ops.size());
  decideFates(graph, model);
  if (step.mayOffload)
    findOffloadable();
  savedMark.assign(values.size(), 0);
  backwardMark.assign(ops.size(), 0);
  forwardMark.assign(ops.size(), 0);
  offloadMark.assign(offloadable.size(), 0);
  reloadMark.assign(offloadable.size(), 0);
  arrivals.assign(offloadable.size(), 0);
  root.resize(2 * values.size());
  lastUse.resize(2 * values.size());
  stays.resize(2 * values.size());
  lives.resize(2 * values.size());
  isApart.resize(2 * values.size());
}

static bool isHandedOn(train::RoleAttr role) {
  return role.getKind() == RoleKind::Saved || role.getKind() == RoleKind::Crossing ||
         role.getKind() == RoleKind::CrossingGradient;
}

void PartitionCosts::number(const JointGraph &graph) {
  Block &body = graph.getFunction().front();
  auto add = [&](mlir::Value value) {
    numbers[value] = unsigned(values.size());
    originals.push_back(value);
    Value &entry = values.emplace_back();
    entry.bytes = memory::getByteSize(value.getType());
    if (step.isLowered)
      entry.bytes = llvm::alignTo(entry.bytes, kAlignment);
  };
  for (BlockArgument argument : body.getArguments())
    add(argument);
  for (Operation &op : body.without_terminator()) {
    for (mlir::Value result : op.getResults()) {
      add(result);
      values.back().op = unsigned(ops.size());
    }
    readOp(graph, op);
  }
  auto addResults = [&](ArrayRef<unsigned> indices, std::vector<Result> &results) {
    for (unsigned index : indices)
      results.push_back({numbers.lookup(body.getTerminator()->getOperand(index)),
                         isHandedOn(train::getResultRole(graph.getFunction(), index))});
  };
  addResults(graph.getForwardResults(), forwardResults);
  addResults(graph.getBackwardResults(), backwardResults);
}

void PartitionCosts::readOp(const JointGraph &graph, Operation &op) {
  Op &entry = ops.emplace_back();
  operations.push_back(&op);
  entry.isTangent = graph.isTangent(&op);
  entry.isForward = !entry.isTangent && graph.isForward(&op);
  if (entry.isForward)
    forwardOps.push_back(unsigned(ops.size() - 1));
  for (mlir::Value operand : op.getOperands())
    entry.operands.push_back(numbers.lookup(operand));
  for (OpResult result : op.getResults()) {
    unsigned number = numbers.lookup(result);
    entry.results.push_back(number);
    Value &value = values[number];
    std::optional<unsigned> shared = memory::getSharedOperand(&op, result.getResultNumber());
    std::optional<unsigned> overwritten =
        memory::getOverwrittenOperand(&op, result.getResultNumber());
    if (std::optional<unsigned> operand = shared ? shared : overwritten)
      value.shared = value.sharedAtFirst = entry.operands[*operand];
    auto accumulate = dyn_cast<train::AccumulateOp>(&op);
    if (!accumulate || shared)
      continue;
    mlir::Value gradient = accumulate.getGradient();
    value.takesOwn = !isa<BlockArgument>(gradient) && gradient.hasOneUse() &&
                     gradient.getType() == result.getType();
    value.sharedAtFirst = value.takesOwn ? numbers.lookup(gradient) : kNone;
  }
}

/// Goes from what the backward needs to all that could be recomputed for it.
void PartitionCosts::decideFates(const JointGraph &graph, const RecomputeModel &model) {
  for (auto [number, original] : llvm::enumerate(originals))
    if (graph.isTangent(original))
      values[number].fate = Fate::Own;
  std::vector<char> isKnown(values.size());
  std::vector<unsigned> worklist;
  auto visit = [&](unsigned number) {
    mlir::Value original = originals[number];
    if (std::exchange(isKnown[number], 1) || graph.isFreeArgument(original))
      return;
    Operation *op = original.getDefiningOp();
    CheckpointChoice tag = model.getPolicy(original);
    bool isComputed = op && tag != CheckpointChoice::Save &&
                      (tag == CheckpointChoice::Recompute || model.isRecomputable(op));
    if (!isComputed) {
      values[number].fate = Fate::Saved;
      return;
    }
    bool isView = isa<dist::ReloadOp>(op) ||
                  memory::getSharedOperand(op, cast<OpResult>(original).getResultNumber());
    values[number].fate = isView || tag == CheckpointChoice::Recompute ? Fate::Again : Fate::Choice;
    worklist.push_back(values[number].op);
  };
  auto visitNeed = [&](unsigned number) {
    if (values[number].fate == Fate::Own)
      return;
    needs.push_back(number);
    visit(number);
  };
  for (const Op &op : ops)
    if (op.isTangent)
      llvm::for_each(op.operands, visitNeed);
  for (const Result &result : backwardResults)
    visitNeed(result.value);
  while (!worklist.empty()) {
    unsigned op = worklist.back();
    worklist.pop_back();
    llvm::for_each(ops[op].operands, visit);
  }
  for (auto [number, value] : llvm::enumerate(values))
    if (value.fate == Fate::Choice) {
      value.choice = unsigned(choices.size());
      choices.push_back(originals[number]);
    }
}

BitVector PartitionCosts::getKept(const Partition &partition) const {
  BitVector kept(countBits());
  for (mlir::Value value : partition.saved) {
    unsigned number = numbers.lookup(value);
    while (values[number].fate == Fate::Again && values[number].shared != kNone)
      number = values[number].shared;
    if (values[number].fate == Fate::Choice)
      kept.set(values[number].choice);
  }
  return kept;
}

//===----------------------------------------------------------------------===//
// The lists of a partition
//===----------------------------------------------------------------------===//

/// Notes that the backward needs a value, and the op where it computes it.
void PartitionCosts::need(unsigned number, const BitVector &kept) {
  const Value &value = values[number];
  switch (value.fate) {
  case Fate::There:
  case Fate::Own:
    return;
  case Fate::Choice:
    if (!kept.test(value.choice))
      break;
    [[fallthrough]];
  case Fate::Saved:
    if (std::exchange(savedMark[number], mark) == mark)
      return;
    saved.push_back(number);
    if (value.offload != kNone && kept.test(unsigned(choices.size()) + value.offload))
      offloadMark[value.offload] = mark;
    return;
  case Fate::Again:
    break;
  }
  if (std::exchange(backwardMark[value.op], mark) != mark)
    missing.push_back(value.op);
}

/// Lists what `missing` needs too, in the order of the forward.
void PartitionCosts::computeNeeded(const BitVector &kept) {
  for (size_t next = 0; next < missing.size(); ++next) {
    unsigned op = missing[next];
    for (unsigned operand : ops[op].operands)
      need(operand, kept);
  }
  llvm::sort(missing);
  llvm::append_range(backwardList, missing);
  missing.clear();
}

/// As listBackwardOps and listForwardOps do.
void PartitionCosts::collect(const BitVector &kept) {
  ++mark;
  isLate = !offloadable.empty() && kept.test(getLateBit());
  saved.clear();
  backwardList.clear();
  for (unsigned index = 0; index < numOps; ++index) {
    const Op &op = ops[index];
    if (!op.isTangent)
      continue;
    for (unsigned operand : op.operands)
      need(operand, kept);
    if (!missing.empty())
      computeNeeded(kept);
    backwardList.push_back(index);
  }
  for (const Result &result : backwardResults)
    need(result.value, kept);
  computeNeeded(kept);
  listForward();
  if (!offloadable.empty())
    addCopies();
}

void PartitionCosts::listForward() {
  bool hasMore = false;
  std::vector<unsigned> &worklist = missing;
  auto run = [&](unsigned value) {
    unsigned op = values[value].op;
    if (op == kNone || ops[op].isForward || std::exchange(forwardMark[op], mark) == mark)
      return;
    hasMore = true;
    worklist.push_back(op);
  };
  llvm::for_each(saved, run);
  for (size_t next = 0; next < worklist.size(); ++next) {
    unsigned op = worklist[next];
    for (unsigned operand : ops[op].operands)
      run(operand);
  }
  forwardList = forwardOps;
  if (hasMore) {
    llvm::append_range(forwardList, worklist);
    llvm::sort(forwardList);
  }
  worklist.clear();
}

Partition PartitionCosts::getPartition(const BitVector &kept) {
  collect(kept);
  llvm::sort(saved);
  Partition partition;
  for (unsigned value : saved) {
    partition.saved.push_back(originals[value]);
    if (isOffloaded(value))
      partition.offloaded[originals[value]] = nullptr;
  }
  if (isLate || partition.offloaded.empty())
    return partition;
  for (const Reload &reload : reloads)
    if (reload.before != kNone)
      partition.offloaded[originals[offloadable[reload.offload]]] = operations[reload.before];
  return partition;
}

PartitionCosts::Costs PartitionCosts::measure(const BitVector &kept) {
  collect(kept);
  Costs costs;
  for (unsigned op : backwardList)
    if (ops[op].isForward || forwardMark[op] == mark)
      costs.time += ops[op].time;
  costs.time += timeOfCopies();
  for (unsigned value : saved)
    costs.hostBytes += isOffloaded(value) ? values[value].bytes : 0;
  if (step.inFlight > 0) {
    costs.peakBytes = measurePeak(/*isFirst=*/false);
    costs.peakBytes += (step.inFlight - 1) * countHeld();
    return costs;
  }
  int64_t first = measurePeak(/*isFirst=*/true);
  bool needsLater = step.microbatches > 1 && !step.isLowered;
  costs.peakBytes = needsLater ? memory::getMicrobatchPeak(step.memory, step.microbatches, first,
                                                           measurePeak(/*isFirst=*/false))
                               : first;
  return costs;
}

//===----------------------------------------------------------------------===//
// The peak
//===----------------------------------------------------------------------===//

/// The instance of a value that a function sees.
unsigned PartitionCosts::lookUp(unsigned value, bool isBackward) const {
  unsigned op = values[value].op;
  bool isOwn = isBackward && op != kNone &&
               (savedMark[value] == mark ? isOffloaded(value)
                                         : ops[op].isTangent || backwardMark[op] == mark);
  return instanceOf(value, isOwn);
}

/// Finds out whose memory each value has and when it is used last.
void PartitionCosts::follow(ArrayRef<unsigned> list, bool isBackward, bool isFirst) {
  for (unsigned index : list) {
    const Op &op = ops[index];
    for (unsigned result : op.results) {
      const Value &value = values[result];
      unsigned own = instanceOf(result, isBackward);
      unsigned shared = isFirst ? value.sharedAtFirst : value.shared;
      root[own] = own;
      if (shared == kNone || op.isReload)
        continue;
      unsigned source = lookUp(shared, isBackward);
      if (!isFirst || !value.takesOwn)
        root[own] = root[source];
      else if (source >= countValues() && root[source] == source)
        root[own] = source;
    }
    for (unsigned operand : op.operands)
      lastUse[root[lookUp(operand, isBackward)]] = time;
    ++time;
  }
}

void PartitionCosts::finish(ArrayRef<Result> results, bool isBackward) {
  for (const Result &result : results) {
    unsigned held = root[lookUp(result.value, isBackward)];
    lastUse[held] = time;
    if (!result.isHandedOn)
      stays[held] = 1;
  }
  if (!isBackward)
    for (unsigned value : saved)
      if (!isOffloaded(value))
        lastUse[root[value]] = time;
  ++time;
}

void PartitionCosts::release(unsigned held) {
  if (isApart[held] || !lives[held] || lastUse[held] != time || stays[held])
    return;
  live -= values[held % countValues()].bytes;
  lives[held] = 0;
}

void PartitionCosts::run(ArrayRef<unsigned> list, bool isBackward) {
  for (unsigned index : list) {
    const Op &op = ops[index];
    int64_t unused = 0;
    for (unsigned result : op.results) {
      unsigned own = instanceOf(result, isBackward);
      if (root[own] != own || isApart[own])
        continue;
      live += values[result].bytes;
      if (lastUse[own] >= 0)
        lives[own] = 1;
      else
        unused += values[result].bytes;
    }
    peak = std::max(peak, live);
    live -= unused;
    for (unsigned operand : op.operands)
      release(root[lookUp(operand, isBackward)]);
    ++time;
  }
}

int64_t PartitionCosts::measurePeak(bool isFirst) {
  for (unsigned value = 0; value < countValues(); ++value)
    root[value] = value;
  std::fill(lastUse.begin(), lastUse.end(), -1);
  std::fill(stays.begin(), stays.end(), 0);
  std::fill(lives.begin(), lives.end(), 0);
  time = 0;
  follow(forwardList, /*isBackward=*/false, isFirst);
  finish(forwardResults, /*isBackward=*/false);
  follow(backwardList, /*isBackward=*/true, isFirst);
  finish(backwardResults, /*isBackward=*/true);

  int64_t apart = step.isLowered ? placeApart() : 0;
  time = 0;
  live = peak = 0;
  run(forwardList, /*isBackward=*/false);
  for (const Result &result : forwardResults)
    release(root[result.value]);
  for (unsigned value : saved)
    release(root[value]);
  ++time;
  forwardPeak = std::exchange(peak, live);
  run(backwardList, /*isBackward=*/true);
  backwardPeak = peak;
  return apart + std::max(forwardPeak, backwardPeak);
}

/// The bytes, for lowered programs, of what functions return and what they save, neither of which
/// lies where the rest does.
int64_t PartitionCosts::placeApart() {
  std::fill(isApart.begin(), isApart.end(), 0);
  int64_t bytes = 0;
  auto place = [&](unsigned held) {
    unsigned value = held % countValues();
    if (values[value].op == kNone || std::exchange(isApart[held], 1))
      return;
    bytes += values[value].bytes;
  };
  for (const Result &result : forwardResults)
    place(root[result.value]);
  for (unsigned value : saved)
    if (!isOffloaded(value))
      place(root[value]);
  for (const Result &result : backwardResults)
    place(root[lookUp(result.value, /*isBackward=*/true)]);
  return bytes;
}
