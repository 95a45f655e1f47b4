//===- LocalBuilder.cpp - what forms write local ops with -----------------===//

#include "lib/placement/forms/LocalBuilder.h"
#include "dialects/aten/Sharding.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Verify.h"

#include "llvm/Support/SaveAndRestore.h"

#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using dist::PlacementAttr;

Axes Axes::operator+(const Axes &other) const {
  Axes sum = *this;
  llvm::append_range(sum.names, other.names);
  sum.ranks *= other.ranks;
  return sum;
}

//===----------------------------------------------------------------------===//
// Frame and axes
//===----------------------------------------------------------------------===//

/// A placement on the function's mesh and axes: that of any operand.
static PlacementAttr frameOf(ValueRange operands) {
  for (Value operand : operands)
    if (PlacementAttr placement = dist::getPlacement(operand.getType()))
      return placement;
  return {};
}

LocalBuilder::LocalBuilder(Operation *op, ValueRange operands, FormBuilder &form)
    : AtenBuilder(form.builder, frameOf(operands)), form(form) {
  form.builder.setInsertionPoint(op);
  SmallVector<NamedAttribute> kept;
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (attribute.getName().getValue().starts_with("train."))
      kept.push_back(attribute);
  setContext(op->getLoc(), kept);
}

std::optional<PlacementAttr> LocalBuilder::getPlacement(Value value) {
  return dist::getPlacement(value.getType());
}

Axes LocalBuilder::axesOf(Value value, int64_t dim) const {
  Axes axes;
  for (StringAttr name : dist::getPlacement(value.getType()).getShardingAxes(dim))
    for (const MeshAxis &axis : form.axes)
      if (axis.name == name) {
        axes.names.push_back(name);
        axes.ranks *= axis.size;
      }
  return axes;
}

std::pair<Axes, Axes> LocalBuilder::splitAxes(const Axes &axes, int64_t ranks) const {
  Axes major, minor;
  for (StringAttr name : llvm::reverse(axes.names))
    for (const MeshAxis &axis : form.axes)
      if (axis.name == name) {
        Axes &part = minor.ranks < ranks ? minor : major;
        part.names.insert(part.names.begin(), name);
        part.ranks *= axis.size;
      }
  return {major, minor};
}

Axes LocalBuilder::axesOf(ArrayRef<AxisStrategy> strategies, unsigned result, int64_t dim) const {
  Axes axes;
  for (auto [axis, strategy] : llvm::zip_equal(form.axes, strategies))
    if (strategy.results[result].isShard(dim)) {
      axes.names.push_back(axis.name);
      axes.ranks *= axis.size;
    }
  return axes;
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

NamedAttribute LocalBuilder::meshAttribute() {
  return named("mesh", FlatSymbolRefAttr::get(form.mesh.getSymNameAttr()));
}

NamedAttribute LocalBuilder::axesAttribute(const Axes &axes) {
  return named("axes",
               builder.getArrayAttr(SmallVector<Attribute>(axes.names.begin(), axes.names.end())));
}

RankedTensorType LocalBuilder::typeWith(Value value, ArrayRef<int64_t> shape, const Axes &axes,
                                        AxisPlacement along) const {
  auto plain = RankedTensorType::get(shape, dtypeOf(value));
  PlacementAttr placement = dist::getPlacement(value.getType());
  if (!placement)
    return plain;
  for (StringAttr axis : axes.names)
    placement = placement.with(axis, along);
  return dist::withPlacement(plain, placement);
}

Value LocalBuilder::allReduce(Value value, const Axes &axes, dist::Reduction reduction) {
  if (axes.empty() || hasFailed())
    return value;
  auto attribute = dist::ReductionAttr::get(builder.getContext(), reduction);
  return create<dist::AllReduceOp>(
             typeWith(value, shapeOf(value), axes, {}), value,
             {named("reduction", attribute), meshAttribute(), axesAttribute(axes)})
      ->getResult(0);
}

Value LocalBuilder::withoutGradient(Value value) {
  return form.holdsGradients ? value : unary<aten::DetachOp>(value);
}

Value LocalBuilder::largestOfAll(Value largest, const Axes &axes) {
  return allReduce(withoutGradient(largest), axes, dist::Reduction::Max);
}

Value LocalBuilder::allGather(Value value, int64_t dim, const Axes &axes) {
  if (axes.empty() || hasFailed())
    return value;
  Shape shape(shapeOf(value));
  shape[dim] *= axes.ranks;
  return create<dist::AllGatherOp>(typeWith(value, shape, axes, {}), value,
                                   {integer("dim", dim), meshAttribute(), axesAttribute(axes)})
      ->getResult(0);
}

Value LocalBuilder::allToAll(Value value, const Axes &axes) {
  if (hasFailed())
    return value;
  return create<dist::AllToAllOp>(
             value.getType(), value,
             {integer("split", 0), integer("concat", 0), meshAttribute(), axesAttribute(axes)})
      ->getResult(0);
}

Value LocalBuilder::exchangeRows(Value value, Value sends, Value receives, int64_t rows,
                                 const Axes &axes) {
  if (hasFailed())
    return value;
  Shape shape(shapeOf(value));
  shape[0] = rows;
  return create<dist::RaggedAllToAllOp>(typeWith(value, shape, axes, AxisPlacement::varying()),
                                        {value, sends, receives},
                                        {meshAttribute(), axesAttribute(axes)})
      ->getResult(0);
}

Value LocalBuilder::startShift(Value value, int64_t by, const Axes &axes) {
  if (hasFailed())
    return value;
  auto type = dist::FutureType::get(builder.getContext(), value.getType());
  return create<dist::ShiftOp>(type, value,
                               {integer("by", by), named("wrap", builder.getUnitAttr()),
                                meshAttribute(), axesAttribute(axes)})
      ->getResult(0);
}

Value LocalBuilder::wait(Value future) {
  if (hasFailed())
    return future;
  return create<dist::WaitOp>(dist::valueTypeOf(future.getType()), future)->getResult(0);
}

//===----------------------------------------------------------------------===//
// Where the rank is
//===----------------------------------------------------------------------===//

Value LocalBuilder::rankAlong(const Axes &axes) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  if (frame) {
    SmallVector<dist::AxisEntry> entries(frame.getEntries());
    for (dist::AxisEntry &entry : entries)
      entry.placement = llvm::is_contained(axes.names, entry.axis) ? AxisPlacement::varying()
                                                                   : AxisPlacement::invariant();
    type = dist::withPlacement(type, PlacementAttr::get(frame.getMesh(), entries));
  }
  return create<dist::AxisIndexOp>(type, {}, {meshAttribute(), axesAttribute(axes)})->getResult(0);
}

Value LocalBuilder::wrapped(Value numbers, const Axes &axes) {
  return where(compare<aten::LtScalarOp>(numbers, scalar(int64_t(0))),
               addScalar(numbers, scalar(axes.ranks)), numbers);
}

Value LocalBuilder::rankBefore(int64_t by, const Axes &axes) {
  Value rank = rankAlong(axes);
  return by == 0 ? rank : wrapped(subScalar(rank, scalar(by)), axes);
}

Value LocalBuilder::ranksBefore(const Axes &axes) {
  return wrapped(sub(rankAlong(axes), arange(axes.ranks)), axes);
}

Value LocalBuilder::indexSelect(Value value, int64_t dim, Value index) {
  Shape shape(shapeOf(value));
  shape[dim] = shapeOf(index)[0];
  return make<aten::IndexSelectOp>(shape, dtypeOf(value), {value, index}, integer("dim", dim));
}

Value LocalBuilder::arange(int64_t size) {
  Type i64 = builder.getI64Type();
  return make<aten::ArangeOp>({size}, i64, {}, {named("end", scalar(size)), dtype("dtype", i64)});
}

Value LocalBuilder::localIndices(Value indices, int64_t size, const Axes &axes) {
  return sub(indices, mulScalar(rankAlong(axes), scalar(size)));
}

Value LocalBuilder::outside(Value localIndices, int64_t size) {
  Value below = compare<aten::LtScalarOp>(localIndices, scalar(int64_t(0)));
  Value above = compare<aten::GeScalarOp>(localIndices, scalar(size));
  return compare<aten::LogicalOrOp>(below, above);
}

//===----------------------------------------------------------------------===//
// Other names for the bits
//===----------------------------------------------------------------------===//

Value LocalBuilder::as(Value value, AxisPlacement wanted, const Axes &axes) {
  PlacementAttr placement = dist::getPlacement(value.getType());
  if (hasFailed() || !placement)
    return value;
  if (wanted.isShard())
    for (StringAttr axis : placement.getShardingAxes(wanted.dim))
      wanted.order += !llvm::is_contained(axes.names, axis);
  for (StringAttr axis : axes.names) {
    placement = placement.with(axis, wanted);
    if (wanted.isShard())
      ++wanted.order;
  }
  return conform(value, placement);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Value LocalBuilder::viewAs(Value value, ArrayRef<int64_t> shape, PlacementAttr wanted) {
  auto type = RankedTensorType::get(shape, dtypeOf(value));
  llvm::SaveAndRestore preference(preferred, wanted ? dist::withPlacement(type, wanted) : type);
  return view(value, shape);
}

Value LocalBuilder::amax(Value value, int64_t dim) {
  return make<aten::AmaxOp>(aten::reduceShape(shapeOf(value), dim, true), dtypeOf(value), value,
                            {integers("dim", dim), boolean("keepdim", true)});
}

Value LocalBuilder::widened(Value value) {
  bool isHalf = isa<FloatType>(dtypeOf(value)) && dtypeOf(value).getIntOrFloatBitWidth() < 32;
  return isHalf ? toType(value, builder.getF32Type()) : value;
}

Value LocalBuilder::minusInfinityWhere(Value mask, Value value) {
  return maskedFill(value, mask, scalar(-std::numeric_limits<double>::infinity()));
}

LocalValues LocalBuilder::finish(ArrayRef<Value> results) {
  if (hasFailed())
    return failure();
  return SmallVector<Value>(results);
}

//===----------------------------------------------------------------------===//
// Strategies
//===----------------------------------------------------------------------===//

AxisStrategy placement::replicatedStrategy(Operation *op, const Form *form) {
  AxisStrategy strategy;
  strategy.operands.assign(op->getNumOperands(), AxisPlacement::replicate());
  strategy.results.assign(op->getNumResults(), AxisPlacement::replicate());
  strategy.form = form;
  return strategy;
}

std::optional<unsigned> placement::operandNumber(Operation *op, StringRef name) {
  return aten::RuleBuilder(op).operand(name);
}

bool placement::dividesEvenly(int64_t size, MeshAxis axis) {
  return size > 0 && size % axis.size == 0;
}

int64_t placement::allReduceBytes(int64_t bytes, MeshAxis axis) {
  return 2 * bytes * (axis.size - 1) / axis.size;
}

int64_t placement::allGatherBytes(int64_t bytes, MeshAxis axis) {
  return bytes * (axis.size - 1) / axis.size;
}

int64_t placement::bytesOf(Value value) {
  return dist::bytesOf(value.getType());
}
