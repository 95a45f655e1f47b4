//===- ExchangedRows.cpp - rows that ranks send to the experts' ranks ------===//
//
// Rows lie in parts (`dist.parts`), a part a rank, with room for a static number of rows; how many
// are in use depends on data. Rows are written to their part by number (index_put), multiplied by
// the matrices of the part's rank (_grouped_mm), and read again (index). Here a rank writes its
// rows to the parts of others, and reads them from there, by an all_to_all of as many rows as there
// are: numbers first, then where rows go in their part, then the rows.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Placed.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

/// The parts between which rows go: those of a group, where there are several.
int64_t countParts(Operation *op) {
  auto parts = op->getAttrOfType<IntegerAttr>(dist::kPartsAttr);
  return parts ? parts.getInt() : 0;
}

/// Whether the op's rows lie in a part for each rank along the axis, or in a group for each.
bool hasPartsOf(Operation *op, MeshAxis axis) {
  int64_t parts = countParts(op);
  if (parts == 0)
    return false;
  dist::PlacementAttr placement = dist::getPlacementOf(op->getOpOperand(0));
  std::optional<AxisPlacement> entry = placement ? placement.get(axis.name) : std::nullopt;
  return placement ? entry && entry->isShard() : parts == axis.size;
}

//===----------------------------------------------------------------------===//
// Rows written and read by number
//===----------------------------------------------------------------------===//

/// Which rows a rank sends to whom, and where those that it receives go.
struct Exchange {
  /// Along which rows go: the minor ones of those that divide rows.
  Axes axes;
  /// The rank's rows by the part that they go to.
  Value order;
  /// By rank.
  Value sends, receives;
  /// By row as it comes, its place in the rank's part; unused places follow, so that each is there
  /// once.
  Value places;
  /// Rows of the rank, and of a part.
  int64_t own, room;

  /// `numbers` are places in the parts of all ranks, of `all` rows of the `parts` ranks of a group;
  /// beyond them, by part, where a part has no room for a row.
  Exchange(LocalBuilder &b, Value numbers, int64_t room, int64_t parts, const Axes &rowAxes)
      : own(shapeOf(numbers)[0]), room(room) {
    Axes groups;
    std::tie(groups, axes) = b.splitAxes(rowAxes, parts);
    int64_t all = own * parts, end = room * rowAxes.ranks;
    Value part = floorDivide(b, numbers, room);
    if (room < all) {
      // The rank to which such a row goes says how many there are.
      Value beyond = floorDivide(b, b.subScalar(numbers, b.scalar(end)), all);
      part = b.where(b.compare<aten::GeScalarOp>(numbers, b.scalar(end)), beyond, part);
    }
    if (!groups.empty())
      part = b.sub(part, b.mulScalar(b.rankAlong(groups), b.scalar(parts)));
    order = sortedOrder(b, part);
    sends = b.make<aten::BincountOp>({axes.ranks}, dtypeOf(numbers), part,
                                     b.integer("minlength", axes.ranks));
    receives = b.allToAll(sends, axes);
    Value place =
        b.makeLike<aten::RemainderScalarOp>(numbers, numbers, b.named("other", b.scalar(room)));
    Value received = send(b, place);
    Value unused = b.compare<aten::GeOp>(b.arange(room), b.sum(receives));
    places = b.where(unused, b.arange(room), received);
  }

  /// Rows of the rank, to the ranks they go to: what comes.
  Value send(LocalBuilder &b, Value rows) const {
    return b.exchangeRows(b.indexSelect(rows, 0, order), sends, receives, room, axes);
  }
  /// What came, back to where it came from: the rank's rows.
  Value sendBack(LocalBuilder &b, Value rows) const {
    Value back = b.exchangeRows(rows, receives, sends, own, axes);
    return put(b, back, order);
  }
  /// `rows` in another order: `places` has each number once.
  static Value put(LocalBuilder &b, Value rows, Value places) {
    Value zeros = b.makeLike<aten::ZerosLikeOp>(rows, rows);
    return b.makeLike<aten::IndexPutOp>(zeros, {zeros, places, rows});
  }

private:
  static Value floorDivide(LocalBuilder &b, Value value, int64_t by) {
    return b.makeLike<aten::FloorDivideScalarOp>(value, value, b.named("other", b.scalar(by)));
  }
  static Value sortedOrder(LocalBuilder &b, Value value) {
    Type type = RankedTensorType::get(shapeOf(value), dtypeOf(value));
    return b.create<aten::SortStableOp>({type, type}, value, b.boolean("stable", true))
        ->getResult(1);
  }
};

/// The operands that have rows, all but the indices, are numbered from 0.
class WrittenRowsForm : public Form {
public:
  StringRef name() const override { return "rows sent to the ranks of their parts"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto put = cast<aten::IndexPutOp>(op);
    if (!hasPartsOf(op, axis) || put.getIndices().size() != 1 ||
        put.getAccumulate().value_or(false) || !dividesEvenly(shapeOf(put.getSelf())[0], axis) ||
        !dividesEvenly(shapeOf(put.getValues())[0], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    for (AxisPlacement &operand : strategy.operands)
      operand = AxisPlacement::shard(0);
    strategy.results[0] = AxisPlacement::shard(0);
    strategy.bytes = allGatherBytes(bytesOf(put.getValues()), axis) / axis.size;
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Axes axes = b.axesOf(operands[0], 0);
    Exchange exchange(b, b.asVarying(operands[1], axes), shapeOf(operands[0])[0], countParts(op),
                      axes);
    Value rows = exchange.send(b, b.asVarying(operands[2], axes));
    return b.finish(b.asShard(Exchange::put(b, rows, exchange.places), 0, axes));
  }
};

class ReadRowsForm : public Form {
public:
  StringRef name() const override { return "rows sent back by the ranks of their parts"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto read = cast<aten::IndexOp>(op);
    if (!hasPartsOf(op, axis) || read.getIndices().size() != 1 ||
        !dividesEvenly(shapeOf(read.getSelf())[0], axis) ||
        !dividesEvenly(shapeOf(read.getResult())[0], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[0] = strategy.operands[1] = AxisPlacement::shard(0);
    strategy.results[0] = AxisPlacement::shard(0);
    strategy.bytes = allGatherBytes(bytesOf(read.getResult()), axis) / axis.size;
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Axes axes = b.axesOf(operands[0], 0);
    Exchange exchange(b, b.asVarying(operands[1], axes), shapeOf(operands[0])[0], countParts(op),
                      axes);
    Value rows = b.indexSelect(b.asVarying(operands[0], axes), 0, exchange.places);
    return b.finish(b.asShard(exchange.sendBack(b, rows), 0, axes));
  }
};

//===----------------------------------------------------------------------===//
// Products of a part's rows
//===----------------------------------------------------------------------===//

/// Rows and matrices divided alike: a rank multiplies the rows of its part, as many as are in use.
class PartsProductForm : public Form {
public:
  StringRef name() const override { return "products of each rank's rows and experts"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto product = cast<aten::GroupedMmOp>(op);
    if (!hasPartsOf(op, axis) || !product.getOffs() ||
        !dividesEvenly(shapeOf(product.getOffs())[0], axis) ||
        !dividesEvenly(shapeOf(product.getSelf())[rowDim(product)], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[0] = AxisPlacement::shard(rowDim(product));
    strategy.operands[1] = strategy.results[0] = AxisPlacement::shard(0);
    if (isOfGroups(product, axis))
      strategy.operands[2] = AxisPlacement::shard(0);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto product = cast<aten::GroupedMmOp>(op);
    LocalBuilder b(op, operands, form);
    int64_t dim = rowDim(product);
    Axes axes = b.axesOf(operands[0], dim);
    int64_t rows = shapeOf(operands[0])[dim];
    int64_t groups = shapeOf(product.getOffs())[0] / axes.ranks;
    Value rank = b.rankAlong(axes), place = rank;
    if (Axes known = b.axesOf(operands[2], 0); !known.empty())
      place = b.rankAlong(b.splitAxes(axes, axes.ranks / known.ranks).second);
    Value own = b.add(b.arange(groups), b.mulScalar(place, b.scalar(groups)));
    Value ends = b.indexSelect(b.asVarying(operands[2], axes), 0, own);
    ends = b.toType(b.sub(ends, b.mulScalar(rank, b.scalar(rows))), dtypeOf(operands[2]));

    Value matrices = dim == 0 ? withoutCopies(operands[1]) : operands[1];
    SmallVector<Value> inputs = {b.asVarying(operands[0], axes), b.asVarying(matrices, axes), ends};
    Shape shape(shapeOf(op->getResult(0)));
    shape[0] = dim == 0 ? rows : groups;
    *(shape.end() - 1) = shapeOf(inputs[1]).back();
    if (dim == 1)
      *(shape.end() - 2) = shapeOf(inputs[0])[0];
    SmallVector<NamedAttribute> attributes = {b.segments({1, 1, 1, 0})};
    if (std::optional<Type> type = product.getOutDtype())
      attributes.push_back(b.dtype("out_dtype", *type));
    Value result = b.make<aten::GroupedMmOp>(shape, dtypeOf(op->getResult(0)), inputs, attributes);
    if (dim == 0) {
      // After the last group they are undefined.
      Value unused = b.compare<aten::GeOp>(b.arange(rows), b.slice(ends, 0, groups - 1, groups));
      result = b.maskedFill(result, b.unsqueeze(unused, 1), b.scalar(0.0));
    }
    return b.finish(b.asShard(result, 0, axes));
  }

private:
  /// The dimension of the left operand that groups divide: rows, or what is summed.
  static int64_t rowDim(aten::GroupedMmOp product) { return rankOf(product.getMat2()) == 2; }

  /// Whether the axis divides rows into groups: each has its own ends.
  static bool isOfGroups(aten::GroupedMmOp product, MeshAxis axis) {
    dist::PlacementAttr placement = dist::getPlacementOf(product->getOpOperand(2));
    std::optional<AxisPlacement> entry = placement ? placement.get(axis.name) : std::nullopt;
    return entry && entry->isShard();
  }

  /// Matrices that are repeated for each group, of which a rank takes one: no copy is needed.
  static Value withoutCopies(Value matrices) {
    Value found = matrices;
    for (Value value = matrices; Operation *op = value.getDefiningOp();) {
      if (isa<dist::ConvertOp>(op))
        op = op->getOperand(0).getDefiningOp<aten::ExpandOp>();
      bool isSame =
          isa_and_nonnull<aten::ViewOp, aten::UnsafeViewOp, aten::UnsqueezeOp, aten::CloneOp>(op) ||
          (isa_and_nonnull<aten::ExpandOp>(op) && shapeOf(op->getOperand(0)) == shapeOf(value));
      if (!isSame)
        break;
      value = op->getOperand(0);
      if (shapeOf(value) == shapeOf(matrices))
        found = value;
    }
    return found;
  }
};

} // namespace

void placement::addExchangeForms(FormTable &table) {
  static const WrittenRowsForm written;
  static const ReadRowsForm read;
  static const PartsProductForm product;
  table.add(aten::IndexPutOp::getOperationName(), &written);
  table.add(aten::IndexOp::getOperationName(), &read);
  table.add(aten::GroupedMmOp::getOperationName(), &product);
}
