//===- Checks.cpp - what annotations may say -------------------------------===//

#include "lib/placement/propagate/Checks.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisEntry;
using dist::PlacementAttr;

/// The shards of each dimension are of one size, or may be of several.
static LogicalResult checkEven(RankedTensorType type, PlacementAttr placement, dist::MeshOp mesh,
                               bool uneven, llvm::function_ref<InFlightDiagnostic()> emitError) {
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t ranks = 1;
    SmallVector<StringAttr> axes = placement.getShardingAxes(dim);
    for (StringAttr axis : axes)
      ranks *= mesh.findAxis(axis).getSize();
    if (axes.empty() || type.getDimSize(dim) % ranks == 0)
      continue;
    if (uneven && axes.size() == 1 && canShard(type.getDimSize(dim), {axes.front(), ranks, uneven}))
      continue;
    InFlightDiagnostic diagnostic = emitError();
    diagnostic << "shards dimension " << dim << " of " << type << ", of size "
               << type.getDimSize(dim) << ", over the " << ranks << " ranks of ";
    llvm::interleave(
        axes, [&](StringAttr axis) { diagnostic << "\"" << axis.getValue() << "\""; },
        [&] { diagnostic << " and "; });
    diagnostic << ", which do not divide it: all shards must have the same size"
               << (uneven ? " if several axes shard a dimension, and none may be empty"
                          : ", unless the option uneven is set");
    diagnostic.attachNote(mesh.getLoc()) << "the mesh is here";
    return diagnostic;
  }
  return success();
}

static LogicalResult checkOne(RankedTensorType type, PlacementAttr placement, dist::MeshOp mesh,
                              bool uneven, llvm::function_ref<InFlightDiagnostic()> emitError) {
  if (placement.getMesh().getValue() != mesh.getSymName())
    return emitError() << "refers to mesh " << placement.getMesh() << ", expected @"
                       << mesh.getSymName();
  for (const AxisEntry &entry : placement.getEntries()) {
    if (!mesh.findAxis(entry.axis))
      return emitError() << "refers to axis \"" << entry.axis.getValue() << "\", which mesh @"
                         << mesh.getSymName() << " does not have";
    if (entry.placement.isInvariant() || entry.placement.isVarying())
      return emitError() << "says " << entry.placement << " on axis \"" << entry.axis.getValue()
                         << "\"; a program for a single device supports R, P and S(dimension)";
    if (entry.placement.isShard() && entry.placement.dim >= type.getRank())
      return emitError() << "shards dimension " << entry.placement.dim << " of " << type
                         << ", which has " << type.getRank() << " dimensions";
  }
  return checkEven(type, placement, mesh, uneven, emitError);
}

LogicalResult propagate::checkAnnotations(const Graph &graph, dist::MeshOp mesh, bool uneven) {
  bool isRight = true;
  for (const Port &port : graph.ports)
    if (PlacementAttr placement = port.getAnnotation())
      isRight &= succeeded(checkOne(graph.values[port.value].type(), placement, mesh, uneven, [&] {
        return emitError(port.getLoc()) << "the placement of " << port.describe() << " ";
      }));
  for (const OpNode &op : graph.ops) {
    for (auto [i, value] : llvm::enumerate(op.results))
      if (PlacementAttr placement =
              value == kNone ? PlacementAttr() : dist::getPlacementOf(op.op->getResult(i)))
        isRight &= succeeded(checkOne(graph.values[value].type(), placement, mesh, uneven, [&] {
          return op.op->emitOpError("the placement of result ") << i << " ";
        }));
    for (auto [i, use] : llvm::enumerate(op.operands))
      if (PlacementAttr placement =
              use == kNone ? PlacementAttr() : dist::getPlacementOf(op.op->getOpOperand(i)))
        isRight &= succeeded(
            checkOne(graph.values[graph.uses[use].value].type(), placement, mesh, uneven,
                     [&] { return op.op->emitOpError("the placement of operand ") << i << " "; }));
  }
  return success(isRight);
}
