//===- FunctionPeaks.cpp - what the functions of a partition need -------------===//

#include "lib/backward/PartitionCosts.h"

#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;

/// What a microbatch in flight holds, from its forward to its backward: the saved values that have
/// memory of their own.
int64_t PartitionCosts::countHeld() {
  int64_t bytes = 0;
  llvm::SmallDenseSet<unsigned, 32> seen;
  for (unsigned value : saved)
    if (unsigned held = root[value];
        values[held].op != kNone && !stays[held] && !isOffloaded(value) && seen.insert(held).second)
      bytes += values[held].bytes;
  return bytes;
}

FunctionPeaks PartitionCosts::measureFunctions(const BitVector &kept) {
  collect(kept);
  (void)measurePeak(/*isFirst=*/false);
  FunctionPeaks peaks;
  llvm::SmallDenseSet<unsigned, 32> seen;
  for (unsigned value : saved) {
    unsigned held = root[value];
    auto argument = dyn_cast<BlockArgument>(originals[held]);
    if (!argument || !seen.insert(held).second)
      continue;
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    if (train::getArgumentRole(function, argument.getArgNumber()).getKind() ==
        train::RoleKind::Crossing)
      peaks.savedInputBytes += memory::getByteSize(argument.getType());
  }
  if (!step.isLowered) {
    peaks.forwardBytes = forwardPeak;
    peaks.heldBytes = countHeld();
    peaks.backwardBytes = backwardPeak;
    return peaks;
  }

  // What a function gives to another stage, or to the user, is on the heap; only other saved values
  // are in the frame.
  llvm::SmallDenseSet<unsigned, 32> given;
  auto addGiven = [&](ArrayRef<Result> results, bool isBackward) {
    int64_t bytes = 0;
    for (const Result &result : results)
      if (unsigned own = root[lookUp(result.value, isBackward)];
          values[own % countValues()].op != kNone && given.insert(own).second)
        bytes += memory::getByteSize(originals[own % countValues()].getType());
    return bytes;
  };
  peaks.forwardBytes = addGiven(forwardResults, /*isBackward=*/false);
  llvm::SmallDenseSet<unsigned, 32> counted;
  int64_t staying = 0;
  for (unsigned own : given)
    if (stays[own])
      staying += memory::getByteSize(originals[own].getType());
  for (unsigned value : saved) {
    unsigned held = root[value];
    if (values[held].op == kNone || isOffloaded(value) || !counted.insert(held).second)
      continue;
    if (!given.contains(held))
      peaks.frameBytes += values[held].bytes;
    else if (!stays[held])
      peaks.heldBytes += memory::getByteSize(originals[held].getType());
  }
  peaks.backwardBytes = staying + peaks.heldBytes + addGiven(backwardResults, /*isBackward=*/true);
  peaks.arenaBytes = std::max(forwardPeak, backwardPeak);
  return peaks;
}
