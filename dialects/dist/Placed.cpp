//===- Placed.cpp - the attributes of placed global programs --------------===//

#include "dialects/dist/Placed.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::dist;
using dist::PlacementAttr;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

/// An array with a placement or `unit` for each of `count` operands or results.
static LogicalResult verifyEntries(Operation *op, NamedAttribute attribute, unsigned count,
                                   StringRef what) {
  auto entries = dyn_cast<ArrayAttr>(attribute.getValue());
  if (!entries)
    return op->emitError() << "expects a list for '" << attribute.getName().getValue()
                           << "', found " << attribute.getValue();
  if (entries.size() != count)
    return op->emitError() << "expects " << count << " entries in '"
                           << attribute.getName().getValue() << "', one for each " << what
                           << ", found " << entries.size();
  for (auto [number, entry] : llvm::enumerate(entries))
    if (!isa<PlacementAttr, UnitAttr>(entry))
      return op->emitError() << "expects a placement (#dist.on) or unit for " << what << " "
                             << number << " in '" << attribute.getName().getValue() << "', found "
                             << entry;
  return success();
}

static InFlightDiagnostic refuseUnknown(Operation *op, NamedAttribute attribute) {
  // A misspelt name would otherwise be kept and mean nothing.
  return op->emitError() << "unknown attribute '" << attribute.getName().getValue() << "'";
}

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kOperandsAttr)
    return verifyEntries(op, attribute, op->getNumOperands(), "operand");
  if (name == kResultsAttr)
    return verifyEntries(op, attribute, op->getNumResults(), "result");
  if (name == kWholeShapeAttr) {
    auto sizes = dyn_cast<DenseI64ArrayAttr>(attribute.getValue());
    if (!sizes || !llvm::all_of(sizes.asArrayRef(), [](int64_t size) { return size >= 0; }))
      return op->emitError() << "expects a list of sizes (array<i64>) for '" << name << "', found "
                             << attribute.getValue();
    return success();
  }
  if (name == kPartsAttr) {
    auto parts = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!parts || !parts.getType().isInteger(64) || parts.getInt() < 1)
      return op->emitError() << "expects a positive number of parts (i64) for '" << name
                             << "', found " << attribute.getValue();
    static constexpr StringLiteral kOps[] = {"aten.index_put", "aten.index", "aten._grouped_mm"};
    if (!llvm::is_contained(kOps, op->getName().getStringRef()))
      return op->emitError() << "expects '" << name << "' on aten.index_put, aten.index and "
                             << "aten._grouped_mm only";
    return success();
  }
  if (name == kPlacementAttr)
    return op->emitError() << "expects '" << name
                           << "' on arguments and results of functions only; ops have '"
                           << kOperandsAttr << "' and '" << kResultsAttr << "'";
  return refuseUnknown(op, attribute);
}

static LogicalResult verifyPlacement(Operation *op, NamedAttribute attribute, StringRef what,
                                     unsigned number, ArrayRef<Type> types) {
  if (attribute.getName() != kPlacementAttr)
    return refuseUnknown(op, attribute);
  if (!isa<PlacementAttr>(attribute.getValue()))
    return op->emitError() << "expects a placement (#dist.on) for '" << kPlacementAttr << "' of "
                           << what << " " << number << ", found " << attribute.getValue();
  if (!isa<RankedTensorType>(types[number]))
    return op->emitError() << "expects '" << kPlacementAttr << "' on tensors only, found " << what
                           << " " << number << " of type " << types[number];
  return success();
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                    NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  return function
             ? verifyPlacement(op, attribute, "argument", argument, function.getArgumentTypes())
             : refuseUnknown(op, attribute);
}

LogicalResult DistDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result,
                                                       NamedAttribute attribute) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  return function ? verifyPlacement(op, attribute, "result", result, function.getResultTypes())
                  : refuseUnknown(op, attribute);
}

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

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
