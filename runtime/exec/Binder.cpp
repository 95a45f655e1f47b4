//===- Binder.cpp - from a function to instructions --------------------------===//

#include "runtime/exec/Binder.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/exec/Lowered.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/Storage.h"
#include "runtime/device/Device.h"
#include "runtime/exec/DeviceVariants.h"
#include "runtime/exec/Grouping.h"
#include "runtime/exec/Kernels.h"
#include "runtime/exec/PlannedInstruction.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::runtime;
namespace exec = cleave::exec;
namespace train = cleave::train;

Binder::Binder(FunctionOpInterface function, const Services &services)
    : function(function), shared(services), lowered(bool(exec::getLowered(function))) {}

/// Whether only ops that are executed in groups stand between two ops.
static bool isOneRun(Operation *first, Operation *last) {
  for (Operation *op = first->getNextNode(); op != last; op = op->getNextNode())
    if (const Kernel *kernel = findKernel(op); !kernel || !kernel->batches)
      return false;
  return true;
}

/// Puts ops that run together into one group, at the place of the last of them. An op leaves its
/// place only if nothing in between needs what it makes.
void Binder::groupOps() {
  llvm::DenseMap<Operation *, size_t> groupOf;
  for (Operation &op : function.getFunctionBody().front().without_terminator()) {
    const Kernel *kernel = findKernel(&op);
    if (kernel && kernel->batches) {
      for (size_t i = groups.size(); i-- > 0;) {
        Group &group = groups[i];
        if (group.empty() || group.front()->getName() != op.getName() ||
            !kernel->batches(group.front(), &op))
          continue;
        bool isFree = llvm::all_of(group, [&](Operation *earlier) {
          return llvm::all_of(earlier->getUsers(), [&](Operation *user) {
            return user->hasTrait<OpTrait::IsTerminator>() || op.isBeforeInBlock(user);
          });
        });
        // In planned memory an op's operands are there for as long as ops like it follow.
        if (!isFree || (lowered && !isOneRun(group.back(), &op)))
          continue;
        Group moved = std::move(group);
        group.clear();
        moved.push_back(&op);
        groups.push_back(std::move(moved));
        break;
      }
      if (!groups.empty() && !groups.back().empty() && groups.back().back() == &op)
        continue;
    }
    groups.push_back({&op});
  }
  llvm::erase_if(groups, [](const Group &group) { return group.empty(); });
}

void Binder::findLastUses() {
  auto note = [&](Operation *op, size_t index) {
    for (Value operand : op->getOperands()) {
      LastUse &last = lastUses[operand];
      if (last.group != index)
        last = {index, 0};
      ++last.remaining;
    }
  };
  // Groups count from 1, so that 0 stands for no use.
  for (size_t i = 0; i < groups.size(); ++i)
    for (Operation *op : groups[i])
      note(op, i + 1);
  note(function.getFunctionBody().front().getTerminator(), groups.size() + 1);
}

Operand Binder::use(Value value) {
  LastUse &last = lastUses[value];
  bool take = last.group == current && --last.remaining == 0;
  return {slots.lookup(value), take};
}

Destination Binder::define(Value value) {
  if (value.use_empty())
    return {};
  uint32_t slot = slots.size();
  slots[value] = slot;
  return {slot};
}

std::vector<PlannedResult> Binder::planResults(Operation *op) const {
  std::vector<PlannedResult> plan;
  for (OpResult result : op->getResults()) {
    PlannedResult &planned = plan.emplace_back();
    if (auto slot = slots.find(result); slot != slots.end())
      planned.destination.slot = slot->second;
    exec::ResultMemory memory = exec::getResultMemory(result);
    switch (memory.kind) {
    case exec::ResultMemory::Apart:
      break;
    case exec::ResultMemory::Arena:
    case exec::ResultMemory::Frame:
      planned.kind = PlannedResult::Arena;
      planned.address = shared.arena->at(
          memory.offset + (memory.kind == exec::ResultMemory::Frame ? shared.frame : 0));
      planned.bytes = memory::getByteSize(dist::valueTypeOf(result.getType()));
      break;
    case exec::ResultMemory::Same:
      planned.kind = memory::getSharedOperand(op, result.getResultNumber())
                         ? PlannedResult::View
                         : PlannedResult::InPlace;
      planned.operandSlot = slots.lookup(op->getOperand(memory.operand));
      break;
    }
  }
  return plan;
}

llvm::Expected<std::unique_ptr<Instruction>> Binder::bindGroup(ArrayRef<Operation *> group) {
  Operation *op = group.front();
  if (shared.device->hasStreams())
    if (BindResult event = bindDeviceEvent(*this, op); !event || *event)
      return event;
  // An instruction that knows nothing of plans.
  auto plan = [&](BindResult bound) -> BindResult {
    if (!bound || !*bound || !lowered)
      return bound;
    std::vector<PlannedResult> results;
    for (Operation *each : group)
      llvm::append_range(results, planResults(each));
    return std::make_unique<PlannedInstruction>(std::move(*bound), std::move(results),
                                                *shared.arena);
  };
  if (const Kernel *kernel = findKernel(op))
    return plan(kernel->bind(*this, group));
  if (isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return bindArithmetic(*this, op);
  if (isa<aten::AtenOpInterface>(op)) {
    if (BindResult grouping = plan(bindGrouping(*this, op)); !grouping || *grouping)
      return grouping;
    if (!shared.device->isHost())
      if (BindResult variant = plan(bindDeviceVariant(*this, op)); !variant || *variant)
        return variant;
    return bindAtenCall(*this, op);
  }
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "the runtime cannot execute it");
}

/// Adds the next list of `bound.replicated`.
void Binder::noteReplicated(ValueRange values, llvm::StringRef prefix, BoundFunction &bound) const {
  std::vector<ReplicatedValue> &replicated = bound.replicated.emplace_back();
  for (auto [index, value] : llvm::enumerate(values)) {
    auto slot = slots.find(value);
    if (slot == slots.end())
      continue; // unused
    std::string name = (prefix + " " + llvm::Twine(index)).str();
    if (isa<BlockArgument>(value))
      if (auto role = FunctionOpInterface(function).getArgAttrOfType<train::RoleAttr>(
              index, train::kRoleAttrName))
        name = "'" + role.getFileName() + "'";
    ReplicatedValue described = describeReplication(value, slot->second, name, *shared.ranks);
    if (!described.axes.empty())
      replicated.push_back(std::move(described));
  }
}

llvm::Expected<BoundFunction> Binder::bind() {
  if (!llvm::hasSingleElement(function.getFunctionBody()))
    return llvm::createStringError(
        llvm::inconvertibleErrorCode(),
        "function '" + function.getName() +
            "' does not consist of a single block; programs are straight-line code");
  groupOps();
  findLastUses();
  BoundFunction bound;
  bound.numArguments = function.getNumArguments();
  for (BlockArgument argument : function.getArguments()) {
    uint32_t slot = slots.size();
    slots[argument] = slot;
  }
  if (shared.checksReplication)
    noteReplicated(function.getArguments(), "argument", bound);
  for (const Group &group : groups) {
    ++current;
    llvm::Expected<std::unique_ptr<Instruction>> instruction = bindGroup(group);
    llvm::StringRef name = group.front()->getName().getStringRef();
    std::string location = describeLocation(group.front()->getLoc());
    if (!instruction)
      return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                     "cannot bind " + name +
                                         (location.empty() ? "" : " at " + location) + ": " +
                                         llvm::toString(instruction.takeError()));
    if ((*instruction)->name.empty())
      (*instruction)->name = name.str();
    (*instruction)->location = std::move(location);
    if (exec::getLoweredFunction(group.front()))
      (*instruction)->stream = streamOf(group.front());
    if ((*instruction)->stream != StreamKind::Compute && shared.device->hasStreams())
      bound.streams = shared.device;
    for (Value result : llvm::reverse(group.front()->getResults()))
      if (auto slot = slots.find(result); slot != slots.end())
        (*instruction)->firstResult = slot->second;
    bound.instructions.push_back(std::move(*instruction));
    if (shared.checksReplication) {
      llvm::SmallVector<Value> made;
      for (Operation *op : group)
        llvm::append_range(made, op->getResults());
      noteReplicated(made, "result", bound);
    }
  }
  ++current;
  for (Value result : function.getFunctionBody().front().getTerminator()->getOperands())
    bound.results.push_back(use(result));
  bound.numSlots = slots.size();
  bound.isLowered = lowered;
  if (lowered)
    bound.arenaBytes = exec::getLowered(function).getArena();
  if (lowered && shared.poisonsDeadMemory)
    bound.dead = findDeadMemory(groups, *shared.frameEnds, shared.frame);
  return bound;
}
