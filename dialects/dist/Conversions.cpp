//===- Conversions.cpp - verifiers: other types, without communication -------===//

#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave::dist;

/// Both types have placements on one mesh, which differ on exactly one axis.
static FailureOr<Redistribution> describeConversion(Operation *op) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  PlacementAttr source = getPlacement(from), destination = getPlacement(to);
  if (!source || !destination)
    return op->emitOpError("expects types with placements, found ") << from << " and " << to;
  if (source.getMesh() != destination.getMesh())
    return op->emitOpError("expects placements on the same mesh, found ") << from << " and " << to;
  auto nameOf = [](const AxisEntry &entry) { return entry.axis; };
  if (!llvm::equal(llvm::map_range(source.getEntries(), nameOf),
                   llvm::map_range(destination.getEntries(), nameOf)))
    return op->emitOpError("expects placements on the same axes, found ") << from << " and " << to;
  SmallVector<StringAttr> axes = source.getDifferingAxes(destination);
  if (axes.size() == 1)
    return Redistribution{op, source.getMesh(), axes, std::nullopt, std::nullopt, std::nullopt};
  InFlightDiagnostic diagnostic = op->emitOpError("expects placements that differ on exactly one "
                                                  "axis, found ");
  if (axes.empty())
    return diagnostic << "two that are equal: " << from;
  llvm::interleave(
      axes, [&](StringAttr axis) { diagnostic << "'" << axis.getValue() << "'"; },
      [&] { diagnostic << " and "; });
  return diagnostic << ": use one op for each";
}

template <typename Op> static StringAttr differingAxis(Op op) {
  return getPlacement(op.getInput().getType())
      .getDifferingAxes(getPlacement(op.getResult().getType()))
      .front();
}

//===----------------------------------------------------------------------===//
// convert
//===----------------------------------------------------------------------===//

StringAttr ConvertOp::getAxis() {
  return differingAxis(*this);
}
AxisPlacement ConvertOp::getSource() {
  return *getPlacement(getInput().getType()).get(getAxis().getValue());
}
AxisPlacement ConvertOp::getDestination() {
  return *getPlacement(getResult().getType()).get(getAxis().getValue());
}

/// What becomes a partial sum is padded with zeros, or is zeros, in memory of its own.
Value ConvertOp::getViewSource() {
  return getDestination().isPartial() ? Value() : getInput();
}

std::optional<int64_t> ConvertOp::getSlicedDim() {
  if (getDim())
    return getDim();
  for (AxisPlacement placement : {getSource(), getDestination()})
    if (placement.isShard())
      return placement.dim;
  return std::nullopt;
}

/// Which dimension is sliced or padded follows from the types and `dim`.
static FailureOr<Redistribution> describeSlicing(ConvertOp op) {
  FailureOr<Redistribution> what = describeConversion(op);
  if (failed(what))
    return failure();
  AxisPlacement source = op.getSource();
  if (source.isVarying() || source.isShard())
    what->gathered = op.getSlicedDim();
  else
    what->scattered = op.getSlicedDim();
  return what;
}

LogicalResult ConvertOp::verify() {
  // 1.
  FailureOr<Redistribution> what = describeConversion(*this);
  // 2.
  if (failed(what) || failed(verifyPlacements(*what)))
    return failure();
  // 3.
  bool varies = getSource().isVarying() || getDestination().isVarying();
  if (varies != getDim().has_value())
    return varies ? emitOpError("expects `dim`, the dimension of which V is a rank's part: from ")
                        << getSource() << " to " << getDestination()
                  : emitOpError("expects no `dim` from ")
                        << getSource() << " to " << getDestination() << ", where no type is V";
  if (getDim() && failed(verifyDim(*this, "dim", *getDim())))
    return failure();
  // 4. (the sizes: verifySymbolUses)
  return verifyShapes(*describeSlicing(*this));
}

LogicalResult ConvertOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(*describeSlicing(*this), symbols);
}

//===----------------------------------------------------------------------===//
// reinterpret
//===----------------------------------------------------------------------===//

StringAttr ReinterpretOp::getAxis() {
  return differingAxis(*this);
}
AxisPlacement ReinterpretOp::getSource() {
  return *getPlacement(getInput().getType()).get(getAxis().getValue());
}
AxisPlacement ReinterpretOp::getDestination() {
  return *getPlacement(getResult().getType()).get(getAxis().getValue());
}
Value ReinterpretOp::getViewSource() {
  return getInput();
}

LogicalResult ReinterpretOp::verify() {
  // 1.
  FailureOr<Redistribution> what = describeConversion(*this);
  // 2. and 3.
  return success(succeeded(what) && succeeded(verifyPlacements(*what)) &&
                 succeeded(verifyShapes(*what)));
}

LogicalResult ReinterpretOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(*describeConversion(*this), symbols);
}

//===----------------------------------------------------------------------===//
// axis_index
//===----------------------------------------------------------------------===//

LogicalResult AxisIndexOp::verify() {
  // 1. (the mesh: verifySymbolUses)
  Redistribution what = describe(*this);
  if (failed(verifyAxes(what)))
    return failure();
  // 2.
  auto type = cast<RankedTensorType>(getResult().getType());
  if (type.getRank() != 0 || !type.getElementType().isSignlessInteger(64))
    return emitOpError("expects a result of type tensor<i64>, found ") << type;
  if (failed(verifyPlacement(what, type, PlacementKind::V)))
    return failure();
  if (PlacementAttr placement = getPlacement(type))
    for (const AxisEntry &entry : placement.getEntries())
      if (!llvm::is_contained(what.axes, entry.axis) && !entry.placement.isSameOnAllRanks())
        return emitOpError("expects R or I along axis '")
               << entry.axis.getValue() << "', along which the index is the same, found " << type;
  return success();
}

LogicalResult AxisIndexOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describe(*this), symbols);
}
