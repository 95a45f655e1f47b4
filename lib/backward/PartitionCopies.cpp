//===- PartitionCopies.cpp - copies of a partition to host memory and back ----===//

#include "lib/backward/PartitionCosts.h"

using namespace cleave::backward;
using llvm::ArrayRef;
using llvm::SmallVector;

/// All that may come to be saved and is made by an op. What stays on the device anyway is not saved
/// by offloading it: a search finds that out.
void PartitionCosts::findOffloadable() {
  for (auto [number, value] : llvm::enumerate(values)) {
    bool isSaved = value.fate == Fate::Choice || value.fate == Fate::Saved;
    if (!isSaved || value.op == kNone || value.bytes == 0)
      continue;
    value.offload = unsigned(offloadable.size());
    offloadable.push_back(unsigned(number));
    ops.emplace_back().operands.push_back(unsigned(number));
    Op &reload = ops.emplace_back();
    reload.results.push_back(unsigned(number));
    reload.isReload = true;
  }
}

/// As SavedValues::offload does.
void PartitionCosts::addCopies() {
  withCopies.clear();
  for (unsigned index : forwardList) {
    withCopies.push_back(index);
    for (unsigned result : ops[index].results)
      if (isOffloaded(result))
        withCopies.push_back(offloadOp(values[result].offload));
  }
  forwardList.swap(withCopies);

  listReloads();
  if (!isLate)
    moveReloadsAhead();
  withCopies.clear();
  auto next = reloads.begin();
  for (unsigned each = 0; each <= backwardList.size(); ++each) {
    for (; next != reloads.end() && next->place == each; ++next) {
      next->before = each < backwardList.size() ? backwardList[each] : kNone;
      withCopies.push_back(reloadOp(next->offload));
    }
    if (each < backwardList.size())
      withCopies.push_back(backwardList[each]);
  }
  backwardList.swap(withCopies);
}

/// What comes back from the host, right before its first use.
void PartitionCosts::listReloads() {
  reloads.clear();
  unsigned place = 0;
  auto use = [&](unsigned value) {
    unsigned offload = values[value].offload;
    if (isOffloaded(value) && std::exchange(reloadMark[offload], mark) != mark)
      reloads.push_back({offload, place});
  };
  for (unsigned index : backwardList) {
    llvm::for_each(ops[index].operands, use);
    ++place;
  }
  for (const Result &result : backwardResults)
    use(result.value);
}

/// Copies back begin so early that nothing waits for them, as far as there is something to run
/// beside them, and no earlier: in between they take memory. They follow each other, so each has
/// ended when the next one has to begin.
void PartitionCosts::moveReloadsAhead() {
  int64_t clock = 0;
  for (unsigned index : backwardList)
    clock += ops[index].hiding;
  unsigned place = unsigned(backwardList.size());
  int64_t begin = clock;
  for (Reload &reload : llvm::reverse(reloads)) {
    // `clock` is when the op at `place` begins.
    for (; place > reload.place; --place)
      clock -= ops[backwardList[place - 1]].hiding;
    // Otherwise it is used after the next one has begun.
    if (place == reload.place)
      begin = std::min(begin, clock);
    begin -= timeOfCopy(offloadable[reload.offload]);
    for (; place > 0 && clock > begin; --place)
      clock -= ops[backwardList[place - 1]].hiding;
    reload.place = place;
  }
}

SmallVector<unsigned> PartitionCosts::listOffloadable() const {
  SmallVector<unsigned> bits;
  for (unsigned value : saved)
    if (values[value].offload != kNone)
      bits.push_back(unsigned(choices.size()) + values[value].offload);
  llvm::sort(bits);
  return bits;
}

/// What a function waits for copies, which follow each other on a stream of their own: each begins
/// after what comes before it in the list; an op waits for a copy back that it uses, and the end
/// of the function for all. So simulate::timeOf counts.
int64_t PartitionCosts::timeOfWaiting(ArrayRef<unsigned> list, bool isBackward) {
  int64_t clock = 0, copied = 0, hidden = 0;
  for (unsigned index : list) {
    if (index >= numOps) {
      unsigned offload = (index - numOps) / 2;
      copied = std::max(copied, clock) + timeOfCopy(offloadable[offload]);
      arrivals[offload] = copied;
      continue;
    }
    const Op &op = ops[index];
    for (unsigned operand : op.operands)
      if (isBackward && isOffloaded(operand))
        clock = std::max(clock, arrivals[values[operand].offload]);
    clock += op.hiding;
    hidden += op.hiding;
  }
  return std::max(clock, copied) - hidden;
}

/// Copies run beside what a function computes. They cost the traffic that they add to the device's
/// memory, and what is waited for them.
int64_t PartitionCosts::timeOfCopies() {
  int64_t bytes = 0;
  for (unsigned value : saved)
    if (isOffloaded(value))
      bytes += values[value].bytes;
  if (bytes == 0)
    return 0;
  return 2 * bytes + timeOfWaiting(forwardList, /*isBackward=*/false) +
         timeOfWaiting(backwardList, /*isBackward=*/true);
}
