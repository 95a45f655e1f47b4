//===- ReduceFunction.cpp - gradients reduced before the update ----------------===//

#include "passes/gradients/ReduceFunction.h"

#include "lib/backward/PhaseFunction.h"
#include "lib/backward/SignatureEditor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::gradients;
using train::RoleKind;

/// What stands for the update's argument in the reduce function, which no longer gives it.
static Value takeFromReduce(backward::SignatureEditor &reduce, BlockArgument argument,
                            train::RoleAttr role) {
  if (auto result = reduce.findResult(role.getKind(), role.getName())) {
    Value value = backward::getReturn(reduce.getFunction()).getOperand(*result);
    reduce.eraseResult(*result);
    return value;
  }
  return reduce.addArgument(argument.getType(), role, argument.getLoc());
}

LogicalResult cleave::gradients::reduceBeforeUpdate(train::ProgramFunctions &stage,
                                                    MutableArrayRef<TakenGradient> gradients,
                                                    StringRef purpose) {
  if (gradients.empty())
    return success();
  func::FuncOp update = stage.update;
  llvm::SetVector<Operation *> moved;
  llvm::SmallSetVector<BlockArgument, 16> taken;
  auto visit = [&](Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      taken.insert(argument);
    else
      moved.insert(value.getDefiningOp());
  };
  for (const TakenGradient &gradient : gradients)
    visit(gradient.value);
  for (size_t i = 0; i < moved.size(); ++i)
    llvm::for_each(moved[i]->getOperands(), visit);
  for (BlockArgument argument : taken)
    if (train::RoleAttr role = train::getArgumentRole(update, argument.getArgNumber());
        role.getKind() != RoleKind::Gradient)
      return update.emitError() << "computes a gradient from " << role << "; " << purpose
                                << " supports gradients only";

  // What is scaled is named by the parameter that it updates.
  llvm::SmallDenseSet<Value> passed;
  SmallVector<train::RoleAttr> roles;
  for (const TakenGradient &gradient : gradients) {
    if (!gradient.parameter)
      return gradient.getFirstUser()->emitError()
             << "expects to update a parameter of the stage, found another value";
    if (!passed.insert(gradient.value).second)
      return gradient.getFirstUser()->emitError()
             << "takes the gradient with which another parameter of the stage is updated";
    roles.push_back(
        train::RoleAttr::get(update.getContext(), RoleKind::Gradient, gradient.parameter));
  }

  if (!stage.reduce) {
    OpBuilder b(update);
    stage.reduce = backward::makePhaseFunction(b, update, train::Phase::Reduce);
    stage.reduce->remove();
    SymbolTable(update->getParentOp()).insert(stage.reduce, Block::iterator(update));
  }
  backward::SignatureEditor reduce(stage.reduce), signature(update);
  IRMapping mapping;
  for (BlockArgument argument : taken)
    mapping.map(argument, takeFromReduce(reduce, argument, signature.getRole(argument)));
  OpBuilder b(backward::getReturn(stage.reduce));
  for (Operation &op : update.front())
    if (moved.contains(&op))
      b.clone(op, mapping);
  for (auto &&[gradient, role] : llvm::zip_equal(gradients, roles)) {
    Value before = gradient.value;
    reduce.addResult(mapping.lookup(before), role);
    BlockArgument reduced = signature.addArgument(before.getType(), role, before.getLoc());
    before.replaceUsesWithIf(reduced,
                             [&](OpOperand &use) { return !moved.contains(use.getOwner()); });
    gradient.value = reduced;
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(update.front())))
    if (moved.contains(&op) && op.use_empty())
      op.erase();
  train::RoleAttr kept;
  for (BlockArgument argument : taken)
    if (argument.use_empty())
      signature.eraseArgument(argument);
    else if (!kept)
      kept = signature.getRole(argument);
  reduce.commit();
  signature.commit();
  if (kept)
    return update.emitError() << "uses " << kept << " for more than the update of its parameter";
  return success();
}

SmallVector<Value> cleave::gradients::getReduced(const train::ProgramFunctions &stage,
                                                 ArrayRef<TakenGradient> gradients) {
  func::FuncOp reduce = stage.reduce, update = stage.update;
  backward::SignatureEditor signature(reduce);
  return llvm::map_to_vector(gradients, [&](const TakenGradient &gradient) -> Value {
    train::RoleAttr role =
        train::getArgumentRole(update, cast<BlockArgument>(gradient.value).getArgNumber());
    return backward::getReturn(reduce).getOperand(
        *signature.findResult(role.getKind(), role.getName()));
  });
}
