//===- RandomPlacements.cpp - random strategies for a program ----------------===//

#include "test/unit/lib/placement/partition/RandomPlacements.h"
#include "test/unit/lib/placement/partition/RandomGraph.h"

#include "dialects/dist/Placed.h"
#include "lib/placement/Form.h"
#include "lib/placement/Redistribution.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using cleave::test::pick;
using dist::AxisPlacement;

namespace {

using Entries = SmallVector<AxisPlacement, 2>;

class Placer {
public:
  Placer(dist::MeshOp mesh, ArrayRef<MeshAxis> axes, std::mt19937 &random)
      : mesh(mesh), axes(axes), planner(axes), random(random) {}
  void place(func::FuncOp function);

private:
  dist::PlacementAttr attribute(Entries entries) const;
  /// R, or a shard of a random dimension; for results pending sums, too.
  Entries anyEntries(RankedTensorType type, bool isResult);
  bool canBe(Value value, const Entries &entries);
  void placeOp(Operation &op);
  bool tryStrategies(Operation &op, ArrayRef<SmallVector<AxisStrategy>> ways,
                     ArrayRef<unsigned> chosen);

  dist::MeshOp mesh;
  ArrayRef<MeshAxis> axes;
  RedistributionPlanner planner;
  std::mt19937 &random;
};

} // namespace

/// Axes that shard one dimension do so in the order of the mesh.
static void setOrders(Entries &entries) {
  for (auto [i, entry] : llvm::enumerate(entries)) {
    entry.order = 0;
    for (const AxisPlacement &before : ArrayRef(entries).take_front(i))
      entry.order += entry.isShard() && before.isShard(entry.dim);
  }
}

/// Whether the axes that shard one dimension of an operand, in the order of the mesh, cut its
/// factors from the outermost on: an inner factor is cut only where all in front of it are.
static bool areFactorsInOrder(const sharding::TensorFactors &tensor, const Entries &entries,
                              ArrayRef<SmallVector<AxisStrategy>> ways, ArrayRef<unsigned> chosen) {
  SmallVector<size_t> last(tensor.size(), 0);
  for (auto [entry, way, i] : llvm::zip_equal(entries, ways, chosen)) {
    if (!entry.isShard() || entry.dim >= tensor.size() || !way[i].factor)
      continue;
    ArrayRef<sharding::FactorId> factors = tensor[entry.dim];
    size_t position = llvm::find(factors, *way[i].factor) - factors.begin();
    if (position < last[entry.dim])
      return false;
    last[entry.dim] = position;
  }
  return true;
}

static bool isLegal(const Entries &entries) {
  for (const AxisPlacement &a : entries)
    for (const AxisPlacement &b : entries)
      if (a.isPartial() && b.isPartial() && a.reduction != b.reduction &&
          (a.reduction > dist::Reduction::Avg || b.reduction > dist::Reduction::Avg))
        return false;
  return true;
}

dist::PlacementAttr Placer::attribute(Entries entries) const {
  SmallVector<dist::AxisEntry> list;
  for (auto [axis, entry] : llvm::zip_equal(axes, entries))
    list.push_back({axis.name, entry});
  return dist::PlacementAttr::get(FlatSymbolRefAttr::get(dist::MeshOp(mesh).getSymNameAttr()),
                                  list);
}

Entries Placer::anyEntries(RankedTensorType type, bool isResult) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    Entries entries;
    for (unsigned i = 0; i < axes.size(); ++i) {
      unsigned choice = pick(random, 4);
      if (choice && type.getRank() && type.getElementType().isFloat())
        entries.push_back(AxisPlacement::shard(pick(random, type.getRank())));
      else if (isResult && choice == 1)
        entries.push_back(AxisPlacement::partial());
      else
        entries.push_back(AxisPlacement::replicate());
    }
    setOrders(entries);
    if (localShape(type.getShape(), entries, axes))
      return entries;
  }
  return Entries(axes.size(), AxisPlacement::replicate());
}

bool Placer::canBe(Value value, const Entries &entries) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return !type || (isLegal(entries) &&
                   planner.plan(type, planner.entriesOf(dist::getPlacementOf(value)), entries));
}

bool Placer::tryStrategies(Operation &op, ArrayRef<SmallVector<AxisStrategy>> ways,
                           ArrayRef<unsigned> chosen) {
  const Form *form = nullptr;
  for (auto [way, i] : llvm::zip_equal(ways, chosen)) {
    if (way[i].form && form && (way[i].form != form || !form->takesSeveralAxes()))
      return false;
    form = way[i].form ? way[i].form : form;
  }
  // Forms compute with what passes on another axis: sums may, what only views pass may not.
  auto isMovedOnly = [](AxisPlacement p) { return p.isPartial() && !p.isPartialSum(); };
  for (auto [way, i] : llvm::zip_equal(ways, chosen))
    if (form && llvm::any_of(way[i].operands, isMovedOnly))
      return false;
  auto along = [&](bool isResult, unsigned number) {
    Entries entries;
    for (auto [way, i] : llvm::zip_equal(ways, chosen))
      entries.push_back(isResult ? way[i].results[number] : way[i].operands[number]);
    setOrders(entries);
    return entries;
  };
  SmallVector<FactorCut> cuts;
  for (auto [way, i, axis] : llvm::zip_equal(ways, chosen, axes))
    if (way[i].factor)
      cuts.push_back({*way[i].factor, axis.size});
  sharding::ShardingRule rule = sharding::getShardingRule(&op);
  for (auto [way, i] : llvm::zip_equal(ways, chosen))
    if (!isCutInFront(rule, way[i], cuts))
      return false;
  SmallVector<Entries> operands, results;
  for (OpOperand &operand : op.getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    operands.push_back(along(false, number));
    if (!canBe(operand.get(), operands.back()) ||
        !areFactorsInOrder(rule.operands[number], operands.back(), ways, chosen))
      return false;
  }
  for (OpResult result : op.getResults()) {
    results.push_back(along(true, result.getResultNumber()));
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (type && !(isLegal(results.back()) && localShape(type.getShape(), results.back(), axes)))
      return false;
  }
  for (auto [operand, entries] : llvm::zip_equal(op.getOpOperands(), operands))
    dist::setPlacementOf(operand, attribute(entries));
  for (auto [result, entries] : llvm::zip_equal(op.getResults(), results))
    dist::setPlacementOf(result, attribute(entries));
  return true;
}

void Placer::placeOp(Operation &op) {
  SmallVector<SmallVector<AxisStrategy>> ways;
  for (const MeshAxis &axis : axes)
    ways.push_back(getStrategies(&op, axis));
  for (int attempt = 0; attempt < 30; ++attempt) {
    SmallVector<unsigned> chosen;
    for (const auto &way : ways)
      chosen.push_back(way.size() > 1 && pick(random, 8) ? 1 + pick(random, way.size() - 1) : 0);
    if (tryStrategies(op, ways, chosen))
      return;
  }
  // Replicated is always a way.
  tryStrategies(op, ways, SmallVector<unsigned>(axes.size(), 0));
}

void Placer::place(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    dist::setPlacementOf(argument,
                         attribute(anyEntries(cast<RankedTensorType>(argument.getType()), false)));
  for (Operation &op : function.front().without_terminator())
    placeOp(op);
  for (OpOperand &operand : function.front().getTerminator()->getOpOperands())
    for (int attempt = 0;; ++attempt) {
      Entries entries = attempt < 20
                            ? anyEntries(cast<RankedTensorType>(operand.get().getType()), true)
                            : Entries(axes.size(), AxisPlacement::replicate());
      if (!canBe(operand.get(), entries))
        continue;
      dist::setPlacementOf(operand, attribute(entries));
      break;
    }
}

void cleave::test::placeAtRandom(ModuleOp module, std::mt19937 &random) {
  dist::MeshOp mesh = dist::getMesh(module);
  SmallVector<MeshAxis> axes;
  for (auto axis : mesh.getAxes().getAsRange<dist::AxisAttr>())
    axes.push_back({StringAttr::get(mesh.getContext(), axis.getName()), axis.getSize()});
  Placer placer(mesh, axes, random);
  for (auto function : module.getOps<func::FuncOp>())
    placer.place(function);
}
