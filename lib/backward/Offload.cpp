//===- Offload.cpp - saved values that wait in host memory --------------------===//

#include "lib/backward/Offload.h"

#include "dialects/dist/Dist.h"
#include "lib/aten/OpCost.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/memory/Storage.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;
using train::RoleKind;

bool cleave::backward::hidesCopies(Operation *op) {
  return aten::countFlops(op) > 0;
}

//===----------------------------------------------------------------------===//
// What there is
//===----------------------------------------------------------------------===//

/// Whether memory is there for as long as the program runs, or belongs to the caller: all but what
/// another stage has sent.
static bool isThereAnyway(Value root) {
  auto argument = dyn_cast<BlockArgument>(root);
  if (!argument)
    return false;
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  RoleKind kind = train::getArgumentRole(function, argument.getArgNumber()).getKind();
  return kind != RoleKind::Crossing && kind != RoleKind::CrossingGradient;
}

SavedValues::SavedValues(ArrayRef<func::FuncOp> functions) : functions(functions) {
  for (func::FuncOp function : functions) {
    memory::Storage storage(/*emptyAccumulators=*/false);
    for (Operation &op : function.front())
      storage.visit(&op);
    llvm::DenseSet<Value> stays;
    auto visit = [&](bool isSaved, function_ref<void(OpOperand &, train::RoleAttr)> each) {
      for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
        train::RoleAttr role = train::getResultRole(function, result.getOperandNumber());
        if ((role.getKind() == RoleKind::Saved) == isSaved)
          each(result, role);
      }
    };
    visit(false,
          [&](OpOperand &result, train::RoleAttr) { stays.insert(storage.of(result.get())); });
    visit(true, [&](OpOperand &result, train::RoleAttr role) {
      Value root = storage.of(result.get());
      int64_t bytes =
          stays.contains(root) || isThereAnyway(root) ? 0 : memory::getByteSize(root.getType());
      saved.push_back({role.getName(), function, result.getOperandNumber(), bytes});
    });
  }
}

//===----------------------------------------------------------------------===//
// The copies
//===----------------------------------------------------------------------===//

namespace {
/// Changes one function.
class HostCopies {
public:
  explicit HostCopies(func::FuncOp function) : function(function) {}

  /// These arguments are host copies from now on. They are copied back in the order of their uses.
  void reload(ArrayRef<BlockArgument> arguments, SavedValues::PlaceOfReload placeOf) {
    SmallVector<std::pair<Operation *, BlockArgument>> reloads;
    for (BlockArgument argument : arguments) {
      if (Operation *first = findFirstUse(argument))
        reloads.push_back({first, argument});
      else
        argument.setType(dist::HostType::get(cast<RankedTensorType>(argument.getType())));
    }
    llvm::stable_sort(reloads, [](const auto &a, const auto &b) {
      return a.first != b.first && a.first->isBeforeInBlock(b.first);
    });
    for (auto [first, argument] : reloads) {
      auto type = cast<RankedTensorType>(argument.getType());
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      Operation *place = placeOf(role.getName(), first);
      OpBuilder b(place ? place : first);
      auto op = dist::ReloadOp::create(b, argument.getLoc(), type, argument);
      argument.replaceUsesWithIf(
          op.getResult(), [&](OpOperand &use) { return use.getOwner() != op && !isPassedOn(use); });
      argument.setType(dist::HostType::get(type));
    }
  }

  void offload(OpOperand &result) {
    Value value = result.get();
    OpBuilder b(function.getContext());
    if (Operation *op = value.getDefiningOp())
      b.setInsertionPointAfter(op);
    else
      b.setInsertionPointToStart(&function.front());
    auto type = dist::HostType::get(cast<RankedTensorType>(value.getType()));
    result.set(dist::OffloadOp::create(b, value.getLoc(), type, value).getResult());
  }

  void commit() {
    Block &body = function.front();
    function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                       body.getTerminator()->getOperandTypes()));
  }

private:
  Operation *findFirstUse(BlockArgument argument) const {
    Operation *first = nullptr;
    for (OpOperand &use : argument.getUses())
      if (!isPassedOn(use) && (!first || use.getOwner()->isBeforeInBlock(first)))
        first = use.getOwner();
    return first;
  }

  bool isPassedOn(OpOperand &use) const {
    return use.getOwner()->hasTrait<OpTrait::IsTerminator>() &&
           train::getResultRole(function, use.getOperandNumber()).getKind() == RoleKind::Saved;
  }

  func::FuncOp function;
};
} // namespace

void SavedValues::offload(function_ref<bool(const Saved &)> select) {
  llvm::DenseMap<Operation *, Operation *> hidingBefore;
  for (func::FuncOp function : functions) {
    Operation *hiding = nullptr;
    for (Operation &op : function.front()) {
      hidingBefore[&op] = hiding;
      if (hidesCopies(&op))
        hiding = &op;
    }
  }
  offload(select, [&](StringAttr, Operation *firstUse) { return hidingBefore.lookup(firstUse); });
}

void SavedValues::offload(function_ref<bool(const Saved &)> select, PlaceOfReload placeOf) {
  llvm::DenseSet<std::pair<Operation *, unsigned>> selected;
  for (const Saved &each : saved)
    if (select(each))
      selected.insert({each.function, each.result});
  llvm::DenseSet<StringAttr> onHost;
  for (func::FuncOp function : functions) {
    HostCopies copies(function);
    SmallVector<BlockArgument> taken;
    for (BlockArgument argument : function.getArguments()) {
      train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
      if (role.getKind() == RoleKind::Saved && onHost.contains(role.getName()) &&
          isa<RankedTensorType>(argument.getType()))
        taken.push_back(argument);
    }
    copies.reload(taken, placeOf);
    for (OpOperand &result : function.front().getTerminator()->getOpOperands()) {
      train::RoleAttr role = train::getResultRole(function, result.getOperandNumber());
      if (role.getKind() != RoleKind::Saved)
        continue;
      bool isTensor = isa<RankedTensorType>(result.get().getType());
      if (isTensor && selected.contains({function, result.getOperandNumber()})) {
        copies.offload(result);
        onHost.insert(role.getName());
      } else if (isa<BlockArgument>(result.get()) && isa<dist::HostType>(result.get().getType())) {
        onHost.insert(role.getName());
      }
    }
    copies.commit();
  }
}
