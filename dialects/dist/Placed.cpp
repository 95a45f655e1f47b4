//===- Placed.cpp - the attributes of placed global programs --------------===//

#include "dialects/dist/Placed.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;
using dist::PlacementAttr;

dist::MeshOp dist::getMesh(ModuleOp module) {
  auto meshes = module.getOps<dist::MeshOp>();
  return llvm::hasSingleElement(meshes) ? *meshes.begin() : dist::MeshOp();
}

static PlacementAttr entry(Operation *op, StringRef name, unsigned number) {
  auto entries = op->getAttrOfType<ArrayAttr>(name);
  return entries && number < entries.size() ? dyn_cast<PlacementAttr>(entries[number])
                                            : PlacementAttr();
}

static void setEntry(Operation *op, StringRef name, unsigned number, unsigned count,
                     PlacementAttr placement) {
  Attribute open = UnitAttr::get(op->getContext());
  SmallVector<Attribute> entries(count, open);
  if (auto old = op->getAttrOfType<ArrayAttr>(name); old && old.size() == count)
    llvm::copy(old, entries.begin());
  entries[number] = placement ? Attribute(placement) : open;
  op->setAttr(name, ArrayAttr::get(op->getContext(), entries));
}

PlacementAttr dist::getPlacementOf(Value value) {
  if (auto result = dyn_cast<OpResult>(value))
    return entry(result.getOwner(), kResultsAttr, result.getResultNumber());
  auto argument = cast<BlockArgument>(value);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function
             ? function.getArgAttrOfType<PlacementAttr>(argument.getArgNumber(), kPlacementAttr)
             : PlacementAttr();
}

PlacementAttr dist::getPlacementOf(OpOperand &operand) {
  if (isa<func::ReturnOp>(operand.getOwner()))
    return operand.getOwner()->getParentOfType<func::FuncOp>().getResultAttrOfType<PlacementAttr>(
        operand.getOperandNumber(), kPlacementAttr);
  return entry(operand.getOwner(), kOperandsAttr, operand.getOperandNumber());
}

void dist::setPlacementOf(Value value, PlacementAttr placement) {
  if (auto result = dyn_cast<OpResult>(value)) {
    setEntry(result.getOwner(), kResultsAttr, result.getResultNumber(),
             result.getOwner()->getNumResults(), placement);
    return;
  }
  auto argument = cast<BlockArgument>(value);
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  if (placement)
    function.setArgAttr(argument.getArgNumber(), kPlacementAttr, placement);
  else
    function.removeArgAttr(argument.getArgNumber(), kPlacementAttr);
}

void dist::setPlacementOf(OpOperand &operand, PlacementAttr placement) {
  Operation *op = operand.getOwner();
  if (!isa<func::ReturnOp>(op)) {
    setEntry(op, kOperandsAttr, operand.getOperandNumber(), op->getNumOperands(), placement);
    return;
  }
  auto function = op->getParentOfType<func::FuncOp>();
  StringAttr name = StringAttr::get(op->getContext(), kPlacementAttr);
  if (placement)
    function.setResultAttr(operand.getOperandNumber(), name, placement);
  else
    function.removeResultAttr(operand.getOperandNumber(), name);
}

bool dist::isPlaced(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, kPlacementAttr))
      return true;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, kPlacementAttr))
      return true;
  return function
      .walk([](Operation *op) {
        return op->hasAttr(kResultsAttr) || op->hasAttr(kOperandsAttr) ? WalkResult::interrupt()
                                                                       : WalkResult::advance();
      })
      .wasInterrupted();
}

void dist::erasePlacements(func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.removeArgAttr(i, kPlacementAttr);
  StringAttr name = StringAttr::get(function.getContext(), kPlacementAttr);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    function.removeResultAttr(i, name);
  function.walk([](Operation *op) {
    op->removeAttr(kResultsAttr);
    op->removeAttr(kOperandsAttr);
  });
}
