//===- DeadMemory.cpp - when planned memory is free again --------------------===//

#include "runtime/exec/DeadMemory.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Lowered.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/verify/Verify.h"

#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace cleave::runtime;
namespace dist = cleave::dist;
namespace exec = cleave::exec;

FrameEnds cleave::runtime::findFrameEnds(ModuleOp module) {
  FrameEnds ends;
  for (auto &[op, ranges] : exec::findFrameEnds(module))
    for (const exec::MemoryRange &range : ranges)
      ends[op].push_back({range.begin, range.end - range.begin});
  return ends;
}

std::vector<std::vector<DeadRange>>
cleave::runtime::findDeadMemory(llvm::ArrayRef<llvm::SmallVector<Operation *, 1>> groups,
                                const FrameEnds &frameEnds, int64_t frame) {
  llvm::DenseMap<Value, Value> roots;
  auto rootOf = [&](Value value) {
    auto found = roots.find(value);
    return found == roots.end() ? value : found->second;
  };
  llvm::DenseMap<Operation *, size_t> positions;
  for (auto [position, group] : llvm::enumerate(groups))
    for (Operation *op : group)
      positions[op] = position;
  // Until when a value itself is used; what a function returns is not in the arena.
  auto lastUse = [&](Value value, size_t made) {
    size_t last = made;
    for (Operation *user : value.getUsers())
      if (auto found = positions.find(user); found != positions.end())
        last = std::max(last, found->second);
    return last;
  };

  llvm::DenseMap<Value, size_t> ends;
  auto extend = [&](Value root, size_t position) {
    size_t &end = ends[root];
    end = std::max(end, position);
  };
  for (auto [position, group] : llvm::enumerate(groups))
    for (Operation *op : group)
      for (OpResult result : op->getResults()) {
        if (isa<exec::EventType>(result.getType()))
          continue;
        exec::ResultMemory memory = exec::getResultMemory(result);
        if (memory.kind == exec::ResultMemory::Same)
          roots[result] = rootOf(op->getOperand(memory.operand));
        size_t last = lastUse(result, position);
        extend(rootOf(result), last);
        // An operation that is only started works on its operands until it is waited for.
        if (isa<dist::FutureType>(result.getType()))
          for (Value operand : op->getOperands())
            extend(rootOf(operand), last);
      }

  std::vector<std::vector<DeadRange>> dead(groups.size());
  for (auto [root, end] : ends) {
    auto result = dyn_cast<OpResult>(root);
    if (!result)
      continue;
    exec::ResultMemory memory = exec::getResultMemory(result);
    if (memory.kind == exec::ResultMemory::Arena)
      dead[end].push_back(
          {memory.offset, memory::getByteSize(dist::valueTypeOf(result.getType()))});
  }
  for (auto [position, group] : llvm::enumerate(groups))
    for (Operation *op : group)
      for (DeadRange range : frameEnds.lookup(op))
        dead[position].push_back({frame + range.offset, range.bytes});
  return dead;
}
