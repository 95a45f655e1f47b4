//===- Context.cpp - between a placed program's attributes and local types ---===//

#include "lib/placement/partition/Partition.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;

PlacementAttr PartitionContext::attributeOf(ArrayRef<AxisPlacement> entries) const {
  SmallVector<AxisEntry> list;
  for (auto [axis, entry] : llvm::zip_equal(axes, entries))
    list.push_back({axis.name, entry});
  return PlacementAttr::get(FlatSymbolRefAttr::get(dist::MeshOp(mesh).getSymNameAttr()), list);
}

AxisPlacements PartitionContext::entriesOf(Value local) const {
  AxisPlacements entries = planner.entriesOf(dist::getPlacement(local.getType()));
  for (AxisPlacement &entry : entries)
    if (entry.isInvariant())
      entry = AxisPlacement::replicate();
  return entries;
}

FailureOr<AxisPlacements>
PartitionContext::entriesOf(PlacementAttr placement,
                            llvm::function_ref<InFlightDiagnostic()> emit) const {
  if (!placement)
    return emit() << " has no placement; run --propagate-placements first";
  if (placement.getMesh().getAttr() != dist::MeshOp(mesh).getSymNameAttr())
    return emit() << " is placed on " << placement.getMesh() << ", expected the program's mesh @"
                  << dist::MeshOp(mesh).getSymName();
  for (const AxisEntry &entry : placement.getEntries())
    if (!dist::MeshOp(mesh).findAxis(entry.axis.getValue()))
      return emit() << " is placed on axis \"" << entry.axis.getValue() << "\", which mesh @"
                    << dist::MeshOp(mesh).getSymName() << " does not have";
  AxisPlacements entries;
  for (const MeshAxis &axis : axes) {
    std::optional<AxisPlacement> entry = placement.get(axis.name.getValue());
    if (!entry)
      return emit() << " has no placement on axis \"" << axis.name.getValue() << "\", only "
                    << placement << "; run --propagate-placements first";
    if (entry->isInvariant() || entry->isVarying())
      return emit() << " is placed as " << *entry << " on axis \"" << axis.name.getValue()
                    << "\", expected R, P or S(d) in a single-device program";
    entries.push_back(*entry);
  }
  return entries;
}

FailureOr<RankedTensorType>
PartitionContext::localType(RankedTensorType global, ArrayRef<AxisPlacement> entries,
                            llvm::function_ref<InFlightDiagnostic()> emit) const {
  unsigned refused = 0;
  if (std::optional<SmallVector<int64_t>> shape =
          localShape(global.getShape(), entries, axes, &refused)) {
    auto report = [&] {
      InFlightDiagnostic diagnostic = emit();
      diagnostic << " is placed as " << describe(entries) << ": ";
      return diagnostic;
    };
    auto type =
        RankedTensorType::getChecked(report, *shape, global.getElementType(), attributeOf(entries));
    if (!type)
      return failure();
    return type;
  }
  const MeshAxis &axis = axes[refused];
  int64_t dim = entries[refused].dim;
  if (dim >= global.getRank())
    return emit() << " is placed as " << entries[refused] << " on axis \"" << axis.name.getValue()
                  << "\", but has " << global.getRank() << " dimensions";
  int64_t size = global.getDimSize(dim), left = size;
  bool isAlone = true;
  for (auto [number, other] : llvm::enumerate(entries)) {
    if (number == refused || !other.isShard(dim))
      continue;
    isAlone = false;
    if (number < refused)
      left /= axes[number].size;
  }
  return emit() << " has dimension " << dim << " of size " << size << " sharded on axis \""
                << axis.name.getValue() << "\", whose " << axis.size << " ranks do not divide "
                << (left == size ? "it"
                                 : "the " + std::to_string(left) + " that the axes before it leave")
                << (!isAlone ? "; several axes need shards of the same size"
                    : axis.allowsUneven
                        ? "; the last shard would be empty"
                        : "; --partition=uneven=true allows shards of different sizes");
}

Value PartitionContext::convertSameness(OpBuilder &builder, Location loc, Value value,
                                        StringAttr axis, bool invariant) const {
  auto type = cast<RankedTensorType>(value.getType());
  PlacementAttr placement = dist::getPlacement(type);
  AxisPlacement wanted = invariant ? AxisPlacement::invariant() : AxisPlacement::replicate();
  if (*placement.get(axis.getValue()) == wanted)
    return value;
  return dist::ConvertOp::create(builder, loc,
                                 dist::withPlacement(type, placement.with(axis.getValue(), wanted)),
                                 value, IntegerAttr());
}

bool placement::equalUpToOrder(ArrayRef<AxisPlacement> a, ArrayRef<AxisPlacement> b) {
  return llvm::equal(a, b, [](AxisPlacement x, AxisPlacement y) {
    x.order = y.order = 0;
    return x == y;
  });
}

std::string placement::describe(ArrayRef<AxisPlacement> placements) {
  std::string text = "(";
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(placements, os, [&](const AxisPlacement &p) { os << toString(p); });
  os << ")";
  return text;
}
