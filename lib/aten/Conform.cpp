//===- Conform.cpp - placements of gradients ----------------------------------===//
//
// A rule computes what each rank's copy of an operand contributes. What that is called follows from
// the operands' placements; the operand's gradient has the dual of the operand's own. Where the two
// differ, the bits are right all the same: an R value that is used in a V computation gets
// contributions that vary, terms of the sum (P) that is its gradient.
//
//===----------------------------------------------------------------------===//

#include "lib/aten/AtenBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::aten;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;

Value AtenBuilder::recast(Value value, StringAttr axis, AxisPlacement to) {
  auto type = cast<RankedTensorType>(value.getType());
  PlacementAttr placement = dist::getPlacement(type);
  bool converts = placement.get(axis)->isInvariant();
  StringRef name =
      converts ? dist::ConvertOp::getOperationName() : dist::ReinterpretOp::getOperationName();
  return create(name, dist::withPlacement(type, placement.with(axis, to)), value)->getResult(0);
}

Value AtenBuilder::conform(Value value, PlacementAttr wanted) {
  if (failed || dist::getPlacement(value.getType()) == wanted)
    return value;
  auto current = [&](StringAttr axis) { return *dist::getPlacement(value.getType()).get(axis); };
  // Dimensions are given up minor axes first, and taken major axes first.
  SmallVector<AxisEntry> entries(wanted.getEntries());
  llvm::stable_sort(entries, [&](const AxisEntry &a, const AxisEntry &b) {
    return current(a.axis).order > current(b.axis).order;
  });
  for (const AxisEntry &entry : entries) {
    AxisPlacement have = current(entry.axis), want = entry.placement;
    if (have == want)
      continue;
    if (have.isInvariant())
      value = recast(value, entry.axis, AxisPlacement::replicate());
    bool isLocal = want.isVarying() || want.isShard() || want.isPartialSum();
    bool crosses = have.isShard() && want.isShard() && have.dim != want.dim;
    if (have.isPartial() || crosses || !(isLocal || (have.isInvariant() && want.isReplicate()))) {
      mlir::emitError(location) << "cannot produce a gradient " << want << " along axis "
                                << entry.axis << " of one that is " << have;
      failed = true;
      return value;
    }
    if (!current(entry.axis).isVarying() && !want.isReplicate())
      value = recast(value, entry.axis, AxisPlacement::varying());
    if (want.isPartial())
      value = recast(value, entry.axis, want);
  }
  llvm::stable_sort(entries, [](const AxisEntry &a, const AxisEntry &b) {
    return a.placement.order < b.placement.order;
  });
  for (const AxisEntry &entry : entries)
    if (entry.placement.isShard() && !current(entry.axis).isShard())
      value = recast(value, entry.axis, entry.placement);
  return value;
}

RankedTensorType aten::gradientTypeOf(Type type) {
  auto tensor = cast<RankedTensorType>(dist::valueTypeOf(type));
  PlacementAttr placement = dist::getPlacement(tensor);
  if (!placement)
    return tensor;
  FailureOr<PlacementAttr> dual = placement.dual();
  return succeeded(dual) ? dist::withPlacement(tensor, *dual) : RankedTensorType();
}

Value AtenBuilder::zeroGradient(Value value) {
  RankedTensorType type = gradientTypeOf(value.getType());
  if (!type)
    return zeros(shapeOf(value), dtypeOf(value));
  Value zero = zeros(type.getShape(), type.getElementType());
  PlacementAttr placement = dist::getPlacement(type);
  return placement ? conform(zero, placement) : zero;
}

Value AtenBuilder::zeroBeside(Value beside) {
  Value zero = scalarTensor(0.0, dtypeOf(beside));
  PlacementAttr placement = dist::getPlacement(beside.getType());
  if (!placement || failed)
    return zero;
  // Constants can be combined with anything but a pending sum, of which they must be a term.
  PlacementAttr wanted = dist::getPlacement(zero.getType());
  for (const AxisEntry &entry : placement.getEntries())
    if (entry.placement.isPartial())
      wanted = wanted.with(entry.axis, entry.placement);
  return conform(zero, wanted);
}
