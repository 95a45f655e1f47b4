//===- FramePlanner.cpp - where saved values lie ------------------------------===//

#include "lib/memory/plan/FramePlanner.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::exec;

namespace {

class FramePlanner {
public:
  explicit FramePlanner(MutableArrayRef<PlannedFunction> functions) : functions(functions) {}

  FramePlan run(int64_t alignment);

private:
  void follow(unsigned index);
  bool mayLieInFrame(const Buffer &buffer) const {
    return buffer.kind == Buffer::Apart && buffer.reason == Buffer::Outlives && buffer.bytes > 0 &&
           isa<RankedTensorType>(buffer.root.getType());
  }

  MutableArrayRef<PlannedFunction> functions;
  FramePlan plan;
  /// What a saved value or an argument shows, by its name and its buffer.
  llvm::DenseMap<StringAttr, Buffer *> saved;
  llvm::DenseMap<Buffer *, Buffer *> shown;
  /// When what is saved is needed.
  llvm::MapVector<Buffer *, Interval> lifetimes;
  /// What others than these functions get.
  llvm::DenseSet<const Buffer *> leaves;
};

} // namespace

/// Notes what a function takes of the frame and what it saves.
void FramePlanner::follow(unsigned index) {
  PlannedFunction &each = functions[index];
  unsigned start = plan.begins[index];
  for (BlockArgument argument : each.function.getArguments()) {
    StringAttr name = getSavedArgument(each.function, argument.getArgNumber());
    Buffer *value = name ? saved.lookup(name) : nullptr;
    if (!value)
      continue;
    Buffer *own = each.buffers->of(argument);
    shown[own] = value;
    Interval &lifetime = lifetimes[value];
    lifetime.end = std::max(lifetime.end, start + own->end);
  }
  Operation *terminator = each.function.front().getTerminator();
  for (OpOperand &returned : terminator->getOpOperands()) {
    Buffer *buffer = each.buffers->of(returned.get());
    if (!buffer)
      continue;
    Buffer *value = buffer;
    if (buffer->kind == Buffer::Argument)
      value = shown.lookup(buffer);
    if (!value || !mayLieInFrame(*value))
      continue;
    StringAttr name = getSavedResult(each.function, returned.getOperandNumber());
    if (!name) {
      leaves.insert(value);
      continue;
    }
    saved[name] = value;
    if (value == buffer)
      lifetimes.insert({value, {start + buffer->begin, start + buffer->end, buffer->bytes}});
  }
}

FramePlan FramePlanner::run(int64_t alignment) {
  unsigned time = 0;
  for (const PlannedFunction &each : functions) {
    plan.begins.push_back(time);
    time += each.order->end() + 1;
  }
  plan.begins.push_back(time);
  for (unsigned index = 0; index < functions.size(); ++index)
    follow(index);
  for (auto &[value, lifetime] : lifetimes)
    if (!leaves.contains(value)) {
      plan.values.push_back(value);
      plan.intervals.push_back(lifetime);
    }
  plan.packing = packIntervals(plan.intervals, alignment);
  for (auto [value, offset] : llvm::zip_equal(plan.values, plan.packing.offsets)) {
    value->kind = Buffer::Planned;
    value->reason = Buffer::NotApart;
    value->memory = {ResultMemory::Frame, offset, 0};
  }
  for (auto [argument, value] : shown)
    if (value->memory.kind == ResultMemory::Frame) {
      argument->memory = value->memory;
      argument->bytes = value->bytes;
    }
  return std::move(plan);
}

FramePlan cleave::exec::planFrame(MutableArrayRef<PlannedFunction> functions, int64_t alignment) {
  return FramePlanner(functions).run(alignment);
}
