//===- RankClasses.cpp - ranks that hold parts of the same sizes -------------===//

#include "lib/placement/partition/RankClasses.h"
#include "dialects/dist/Placed.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::PlacementAttr;

namespace {
/// Sizes of dimensions that an axis shards and does not divide.
using UnevenSizes = llvm::SmallSetVector<int64_t, 4>;

void collect(Type type, PlacementAttr placement, const MeshAxis &axis, UnevenSizes &sizes) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !placement)
    return;
  std::optional<dist::AxisPlacement> entry = placement.get(axis.name.getValue());
  if (entry && entry->isShard() && entry->dim < tensor.getRank() &&
      tensor.getDimSize(entry->dim) % axis.size != 0)
    sizes.insert(tensor.getDimSize(entry->dim));
}

UnevenSizes collect(ArrayRef<func::FuncOp> functions, const MeshAxis &axis) {
  UnevenSizes sizes;
  for (func::FuncOp function : functions) {
    for (BlockArgument argument : function.getArguments())
      collect(argument.getType(), dist::getPlacementOf(argument), axis, sizes);
    function.walk([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands())
        collect(operand.get().getType(), dist::getPlacementOf(operand), axis, sizes);
      for (OpResult result : op->getResults())
        collect(result.getType(), dist::getPlacementOf(result), axis, sizes);
    });
  }
  return sizes;
}

/// The places along an axis, those with equal parts together.
std::vector<SmallVector<int64_t>> groupPlaces(const UnevenSizes &sizes, MeshAxis axis) {
  std::map<std::vector<int64_t>, size_t> known;
  std::vector<SmallVector<int64_t>> groups;
  for (axis.place = 0; axis.place < axis.size; ++axis.place) {
    std::vector<int64_t> parts;
    for (int64_t size : sizes)
      parts.push_back(shardSize(size, axis));
    auto [group, isNew] = known.try_emplace(std::move(parts), groups.size());
    if (isNew)
      groups.emplace_back();
    groups[group->second].push_back(axis.place);
  }
  return groups;
}
} // namespace

SmallVector<RankClass> placement::findRankClasses(ArrayRef<func::FuncOp> functions,
                                                  ArrayRef<MeshAxis> axes) {
  Builder builder(axes.front().name.getContext());
  struct Partial {
    SmallVector<NamedAttribute> ranks;
    SmallVector<MeshAxis> axes;
  };
  SmallVector<Partial> partials(1);
  for (const MeshAxis &axis : axes) {
    std::vector<SmallVector<int64_t>> groups = groupPlaces(collect(functions, axis), axis);
    SmallVector<Partial> extended;
    for (const Partial &partial : partials)
      for (ArrayRef<int64_t> places : groups) {
        Partial &next = extended.emplace_back(partial);
        next.axes.push_back(axis);
        next.axes.back().place = places.front();
        if (groups.size() > 1)
          next.ranks.emplace_back(axis.name, builder.getDenseI64ArrayAttr(places));
      }
    partials = std::move(extended);
  }
  SmallVector<RankClass> classes;
  for (Partial &partial : partials)
    classes.push_back(
        {partial.ranks.empty() ? DictionaryAttr() : builder.getDictionaryAttr(partial.ranks),
         std::move(partial.axes)});
  return classes;
}
