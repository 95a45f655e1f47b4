//===- MemoryPlan.cpp - how much memory functions will use --------------------===//

#include "lib/memory/MemoryPlan.h"
#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/dist/Verify.h"
#include "dialects/exec/Lowered.h"
#include "lib/memory/Storage.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace cleave::memory;
namespace aten = cleave::aten;
namespace dist = cleave::dist;
namespace exec = cleave::exec;
namespace train = cleave::train;

Value cleave::memory::getViewSource(OpResult value) {
  Operation *op = value.getOwner();
  if (auto call = dyn_cast<aten::AtenOpInterface>(op))
    return call.getViewedOperand(value.getResultNumber());
  auto view = dyn_cast<ViewLikeOpInterface>(op);
  return view ? view.getViewSource() : Value();
}

Value cleave::memory::getStorage(Value value) {
  while (auto result = dyn_cast<OpResult>(value)) {
    Value source = getViewSource(result);
    if (!source)
      break;
    value = source;
  }
  return value;
}

SmallVector<Operation *> cleave::memory::getPrivateViews(Value value) {
  SmallVector<Operation *> views;
  while (auto result = dyn_cast<OpResult>(value)) {
    Value source = getViewSource(result);
    if (!source || result.getOwner()->getNumResults() != 1 || !result.hasOneUse())
      break;
    views.push_back(result.getOwner());
    value = source;
  }
  std::reverse(views.begin(), views.end());
  return views;
}

int64_t cleave::memory::getByteSize(Type type, Space space) {
  if (isa<dist::HostType>(type) != (space == Space::Host))
    return 0;
  auto tensor = dyn_cast<RankedTensorType>(dist::valueTypeOf(type));
  return tensor && tensor.hasStaticShape() ? dist::bytesOf(tensor) : 0;
}

namespace {
/// Walks the functions in order, counting what lives.
class Planner {
public:
  Planner(ArrayRef<func::FuncOp> functions, bool emptyAccumulators,
          function_ref<bool(train::RoleAttr)> owned, Space space)
      : functions(functions), storage(emptyAccumulators), space(space) {
    for (func::FuncOp function : functions) {
      if (owned)
        own(function, owned);
      findLifetimes(function);
    }
  }

  MemoryPlan run() {
    for (func::FuncOp function : functions)
      plan.functions.push_back(runFunction(function));
    for (const FunctionPlan &part : plan.functions)
      if (!plan.peakOp || part.peakBytes > plan.peakBytes) {
        plan.peakBytes = part.peakBytes;
        plan.peakOp = part.peakOp;
      }
    plan.resultBytes = keptBytes;
    return std::move(plan);
  }

private:
  /// What is in the arena or the frame needs no memory besides.
  int64_t bytesOf(Value root) const {
    if (auto result = dyn_cast<OpResult>(root)) {
      exec::ResultMemory::Kind kind = exec::getResultMemory(result).kind;
      if (kind == exec::ResultMemory::Arena || kind == exec::ResultMemory::Frame)
        return 0;
    }
    return getByteSize(root.getType(), space);
  }

  /// What one function makes for another: of its own stage, or of the next.
  static bool isHandedOn(train::RoleAttr role) {
    return role && (role.getKind() == train::RoleKind::Saved ||
                    role.getKind() == train::RoleKind::Crossing ||
                    role.getKind() == train::RoleKind::CrossingGradient);
  }
  using Key = std::pair<unsigned, StringAttr>;
  static Key keyOf(train::RoleAttr role) {
    return {static_cast<unsigned>(role.getKind()), role.getName()};
  }

  /// An argument that is owned lives from the beginning; the same one of a later function is
  /// another name for it.
  void own(func::FuncOp function, function_ref<bool(train::RoleAttr)> owned) {
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (!owned(role))
        continue;
      auto [found, isNew] = arguments.try_emplace(keyOf(role), argument);
      if (!isNew) {
        storage.alias(argument, found->second);
        continue;
      }
      living.insert(argument);
      live += getByteSize(argument.getType(), space);
    }
  }

  void findLifetimes(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments())
      if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
          isHandedOn(role))
        if (Value source = saved.lookup(keyOf(role)))
          storage.alias(argument, source);
    for (Operation &op : function.front()) {
      storage.visit(&op);
      for (Value operand : op.getOperands())
        lastUse[storage.of(operand)] = &op;
    }
    for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
      train::RoleAttr role = train::getResultRole(function, result.getOperandNumber());
      if (isHandedOn(role))
        saved[keyOf(role)] = result.get();
      else
        kept.insert(storage.of(result.get()));
    }
  }

  /// Frees what `op` uses last.
  void release(Operation &op) {
    for (Value operand : op.getOperands()) {
      Value root = storage.of(operand);
      if (living.contains(root) && lastUse.lookup(root) == &op && !kept.contains(root)) {
        live -= bytesOf(root);
        living.erase(root);
      }
    }
  }

  FunctionPlan runFunction(func::FuncOp function) {
    FunctionPlan part;
    part.peakBytes = live;
    Operation *terminator = function.front().getTerminator();
    for (Operation &op : function.front().without_terminator()) {
      int64_t unused = 0;
      for (Value result : op.getResults()) {
        if (storage.of(result) != result)
          continue;
        int64_t bytes = bytesOf(result);
        live += bytes;
        if (lastUse.contains(result))
          living.insert(result);
        else
          unused += bytes;
      }
      if (live > part.peakBytes || !part.peakOp) {
        part.peakBytes = live;
        part.peakOp = &op;
      }
      live -= unused;
      release(op);
    }
    for (Value result : terminator->getOperands())
      if (Value root = storage.of(result);
          living.contains(root) && kept.contains(root) && counted.insert(root).second)
        keptBytes += bytesOf(root);
    llvm::SmallDenseSet<Value> returned;
    for (Value result : terminator->getOperands())
      if (Value root = storage.of(result); living.contains(root) && returned.insert(root).second)
        part.returnedBytes += bytesOf(root);
    // A saved value that its consumer does not use is gone with the consumer's frame.
    release(*terminator);
    part.heldBytes = live - keptBytes;
    return part;
  }

  ArrayRef<func::FuncOp> functions;
  Storage storage;
  Space space;
  MemoryPlan plan;
  llvm::DenseMap<Value, Operation *> lastUse;
  llvm::DenseMap<Key, Value> saved, arguments;
  /// Results that stay to the end; what lives now; results that have been counted.
  llvm::DenseSet<Value> kept, living, counted;
  int64_t live = 0, keptBytes = 0;
};
} // namespace

MemoryPlan cleave::memory::planMemory(ArrayRef<func::FuncOp> functions, bool emptyAccumulators,
                                      function_ref<bool(train::RoleAttr)> owned, Space space) {
  return Planner(functions, emptyAccumulators, owned, space).run();
}

int64_t cleave::memory::getArenaBytes(ArrayRef<func::FuncOp> functions) {
  int64_t bytes = 0;
  for (func::FuncOp function : functions)
    if (exec::LoweredAttr lowered = exec::getLowered(function))
      bytes = std::max(bytes, lowered.getArena());
  return bytes;
}

std::string cleave::memory::describeBytes(int64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  return llvm::formatv(unit ? "{0:f1} {1}" : "{0:f0} {1}", value, units[unit]).str();
}
