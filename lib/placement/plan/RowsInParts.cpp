//===- RowsInParts.cpp - rows sorted by expert become rows in parts ----------===//

#include "lib/placement/plan/RowsInParts.h"

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Placed.h"
#include "dialects/sharding/ShardingRule.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using aten::AtenBuilder;
using aten::dtypeOf;
using aten::rankOf;
using aten::Shape;
using aten::shapeOf;
using dist::AxisPlacement;
using dist::PlacementAttr;
using sharding::ShardingRule;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// Rows as they were before sorting, by token, then by choice.
Value RowsRewriter::byToken(Value value) {
  if (rows.areTogether)
    return value;
  Shape shape(shapeOf(value)), byChoice = shape;
  byChoice[0] = rows.tokens();
  byChoice.insert(byChoice.begin(), rows.perToken);
  // As they were before rows of all choices were put together: tokens may lie on several ranks.
  Value source = value;
  while (Operation *op = source.getDefiningOp()) {
    if (isa<aten::TOp>(op) && shapeOf(source) == ArrayRef<int64_t>(byChoice))
      return b.reshape(op->getOperand(0), shape);
    if (shapeOf(source) == ArrayRef<int64_t>(byChoice) ||
        !isa<aten::ViewOp, aten::UnsafeViewOp, aten::CloneOp, aten::TOp>(op))
      break;
    source = op->getOperand(0);
  }
  if (shapeOf(source) != ArrayRef<int64_t>(byChoice))
    source = b.view(value, byChoice);
  return b.reshape(b.transpose(source, 0, 1), shape);
}

void RowsRewriter::makeNumbers() {
  Type i64 = builder.getI64Type();
  int64_t groups = parts.groups, inGroup = parts.inGroup, all = parts.all();
  int64_t own = rows.rows / all, ofGroup = rows.rows / groups, perPart = rows.experts / inGroup;

  // Each source's rows, sorted.
  Value keys = b.view(byToken(rows.keys), {all, own});
  Value ones = b.makeLike<aten::OnesLikeOp>(keys, keys);
  Value counts = b.zeros({all, rows.experts}, i64);
  counts = b.makeLike<aten::ScatterAddOp>(counts, {counts, keys, ones}, b.integer("dim", 1));
  counts = b.view(counts, {groups, inGroup, rows.experts});
  Operation *sorted = b.create<aten::SortStableOp>(
      {keys.getType(), keys.getType()}, keys, {b.boolean("stable", true), b.integer("dim", 1)});
  Value expert = sorted->getResult(0), order = sorted->getResult(1);

  // Where experts' rows begin and end in a group, from where those of their part do.
  Value running = groups == 1 ? b.toType(rows.ends, i64) : cumsum(b.sum(counts, {1}, false), 1);
  Value byPart = b.view(running, {groups, inGroup, perPart});
  Value last = b.slice(byPart, 2, perPart - 1, perPart);
  Value before = b.cat({b.zeros({groups, 1, 1}, i64), b.slice(last, 1, 0, inGroup - 1)}, 1);
  Value inPart = b.sub(byPart, before);
  Value begins = b.view(b.mulScalar(arange(all), b.scalar(room)), {groups, inGroup, 1});
  ends = b.toType(b.view(b.add(inPart, begins), {groups * rows.experts}), dtypeOf(rows.ends));

  // An expert's rows come after those of the sources before.
  Value first = b.cat({b.zeros({groups, inGroup, 1}, i64), b.slice(inPart, 2, 0, perPart - 1)}, 2);
  first = b.view(first, {groups, 1, rows.experts});
  Value shift = b.add(b.sub(cumsum(counts, 1), cumsum(counts, 2)), first);
  shift = b.view(shift, {all, rows.experts});
  Value place = b.makeLike<aten::GatherOp>(expert, {shift, expert}, b.integer("dim", 1));
  place = b.add(place, b.unsqueeze(arange(own), 0));
  Value part = floorDivide(expert, perPart);
  if (groups > 1) {
    Value begin = b.mulScalar(floorDivide(arange(all), inGroup), b.scalar(inGroup));
    part = b.add(part, b.unsqueeze(begin, 1));
  }
  Value number = b.add(place, b.mulScalar(part, b.scalar(room)));
  if (room < ofGroup) {
    Value beyond = b.add(place, b.mulScalar(part, b.scalar(ofGroup)));
    beyond = b.addScalar(beyond, b.scalar(room * all));
    number = b.where(b.compare<aten::GeScalarOp>(place, b.scalar(room)), beyond, number);
  }
  numbers = b.makeLike<aten::ScatterSrcOp>(number, {number, order, number}, b.integer("dim", 1));
  numbers = b.view(numbers, {rows.rows});
}

Value RowsRewriter::getSortedNumbers() {
  if (!sortedNumbers) {
    Value source = numbers;
    if (!rows.areTogether)
      source = b.reshape(b.transpose(b.view(numbers, {rows.tokens(), rows.perToken}), 0, 1),
                         {rows.rows});
    sortedNumbers = b.make<aten::IndexOp>({rows.rows}, dtypeOf(source), {source, rows.order});
  }
  return sortedNumbers;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Says that the op that makes the value works on parts, and how values lie: operands of dimension
/// -1 have what is of their groups.
Value RowsRewriter::mark(Value value, ArrayRef<int64_t> operandDims) {
  Operation *op = value.getDefiningOp();
  op->setAttr(dist::kPartsAttr, builder.getI64IntegerAttr(parts.inGroup));
  auto on = [&](int64_t dim) {
    SmallVector<dist::AxisEntry> entries;
    for (auto [order, axis] : llvm::enumerate(parts.groupAxes))
      entries.push_back(
          {builder.getStringAttr(axis), AxisPlacement::shard(std::max<int64_t>(dim, 0), order)});
    entries.push_back(
        {builder.getStringAttr(parts.axis),
         dim < 0 ? AxisPlacement::replicate() : AxisPlacement::shard(dim, parts.groupAxes.size())});
    return PlacementAttr::get(FlatSymbolRefAttr::get(mesh.getSymNameAttr()), entries);
  };
  for (auto [operand, dim] : llvm::zip_equal(op->getOpOperands(), operandDims))
    dist::setPlacementOf(operand, on(dim));
  dist::setPlacementOf(value, on(0));
  return value;
}

Value RowsRewriter::put(Value values, Value places) {
  Shape shape(shapeOf(values));
  shape[0] = parts.all() * room;
  Value zeros = b.zeros(shape, dtypeOf(values));
  return b.makeLike<aten::IndexPutOp>(zeros, {zeros, places, values});
}

Value RowsRewriter::take(Value partRows, Value places) {
  Shape shape(shapeOf(partRows));
  shape[0] = rows.rows;
  return b.make<aten::IndexOp>(shape, dtypeOf(partRows), {partRows, places});
}

Value RowsRewriter::write(Value tokenRows) {
  return mark(put(tokenRows, numbers), {0, 0, 0});
}
Value RowsRewriter::read(Value partRows) {
  return mark(take(partRows, numbers), {0, 0});
}

/// Sorted rows are of any group, wherever they lie.
Value RowsRewriter::writeSorted(Value sorted) {
  Value made = put(sorted, getSortedNumbers());
  return parts.groups == 1 ? mark(made, {0, 0, 0}) : made;
}

Value RowsRewriter::readSorted(Value partRows) {
  Value made = take(partRows, getSortedNumbers());
  return parts.groups == 1 ? mark(made, {0, 0}) : made;
}

/// A row for each choice of a token.
Value RowsRewriter::expandTokens(Value tokens) {
  Shape shape(shapeOf(tokens));
  shape.insert(shape.begin() + 1, rows.perToken);
  Value each = b.expand(b.unsqueeze(tokens, 1), shape);
  shape.erase(shape.begin());
  shape[0] = rows.rows;
  return b.reshape(each, shape);
}

/// What comes from outside, in parts.
Value RowsRewriter::enter(Value sorted) {
  Operation *op = sorted.getDefiningOp();
  // After both the value and the numbers.
  if (op && numbers.getDefiningOp()->isBeforeInBlock(op)) {
    startAt(op);
    builder.setInsertionPointAfter(op);
  } else {
    builder.setInsertionPointAfter(numbers.getDefiningOp());
    if (op)
      b.setContext(op->getLoc(), {});
  }
  if (sorted == rows.sortedKeys)
    return write(byToken(rows.keys));
  auto index = dyn_cast_or_null<aten::IndexOp>(op);
  switch (index ? classifyIndex(rows, getRowIndex(index)) : RowIndex::None) {
  case RowIndex::Tokens:
    return write(expandTokens(index.getSelf()));
  case RowIndex::Rows:
    return write(byToken(index.getSelf()));
  case RowIndex::None:
    break;
  }
  return writeSorted(sorted);
}

/// The experts' matrices for each group.
Value RowsRewriter::forGroups(Value matrices) {
  Shape shape(shapeOf(matrices)), each = shape;
  each.insert(each.begin(), parts.groups);
  shape[0] *= parts.groups;
  return b.reshape(b.expand(b.unsqueeze(matrices, 0), each), shape);
}

/// The groups' matrices, added up.
Value RowsRewriter::overGroups(Value matrices) {
  Shape shape(shapeOf(matrices));
  shape[0] /= parts.groups;
  shape.insert(shape.begin(), parts.groups);
  return b.sum(b.view(matrices, shape), {0}, false);
}

Value RowsRewriter::get(Value sorted) {
  Value &value = inParts[sorted];
  if (!value) {
    Value made = enter(sorted);
    return inParts[sorted] = made;
  }
  return value;
}

void RowsRewriter::clone(Operation *op) {
  IRMapping mapping;
  for (Value operand : op->getOperands())
    if (rows.hasRows(operand))
      mapping.map(operand, get(operand));
  builder.setInsertionPoint(op);
  Operation *copy = builder.clone(*op, mapping);
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults())) {
    auto at = rows.values.find(from);
    if (at == rows.values.end())
      continue;
    Shape shape(shapeOf(from));
    shape[at->second] = parts.all() * room;
    to.setType(RankedTensorType::get(shape, dtypeOf(from)));
    inParts[from] = to;
  }
  if (auto product = dyn_cast<aten::GroupedMmOp>(copy)) {
    product.getOffsMutable().assign(ends);
    bool isSum = rankOf(product.getMat2()) == 2;
    if (parts.groups > 1 && !isSum) {
      startAt(op);
      builder.setInsertionPoint(copy);
      product.getMat2Mutable().assign(forGroups(product.getMat2()));
    }
    if (parts.groups > 1 && isSum) {
      Shape shape(shapeOf(product.getResult()));
      shape[0] *= parts.groups;
      product.getResult().setType(RankedTensorType::get(shape, dtypeOf(product.getResult())));
    }
    mark(product.getResult(), {isSum ? 1 : 0, 0, -1});
  }
  for (const sharding::SizeAttribute &size : sharding::getShardingRule(op).sizeAttributes)
    if (size.source == sharding::SizeAttribute::ResultShape && copy->hasAttr(size.name))
      copy->setAttr(size.name, builder.getDenseI64ArrayAttr(shapeOf(copy->getResult(size.index))));
  startAt(op);
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults()))
    if (!rows.hasRows(from))
      from.replaceAllUsesWith(from.getType() == to.getType() ? to : overGroups(to));
}

/// `op` makes rows in the order of before the sort.
void RowsRewriter::replaceWithRows(Operation *op, Value tokenRows) {
  if (!rows.areTogether) {
    Shape shape(shapeOf(tokenRows));
    Shape byToken = shape;
    byToken[0] = rows.perToken;
    byToken.insert(byToken.begin(), rows.tokens());
    Value byChoice = b.transpose(b.view(tokenRows, byToken), 0, 1);
    std::swap(byToken[0], byToken[1]);
    // Most take them by choice.
    for (Operation *user : llvm::make_early_inc_range(op->getResult(0).getUsers()))
      if (isa<aten::ViewOp>(user) && shapeOf(user->getResult(0)) == ArrayRef<int64_t>(byToken))
        user->getResult(0).replaceAllUsesWith(byChoice);
    tokenRows = b.reshape(byChoice, shape);
  }
  op->getResult(0).replaceAllUsesWith(tokenRows);
}

/// A use outside of rows that are made inside.
void RowsRewriter::leave(OpOperand &use) {
  Operation *op = use.getOwner();
  Value value = inParts.lookup(use.get());
  if (isa<aten::NewZerosOp>(op))
    return use.set(value); // for its type
  startAt(op);
  auto put = dyn_cast<aten::IndexPutOp>(op);
  bool isWritten = put && use.get() == put.getValues() && put.getSelf() != put.getValues();
  RowIndex index = isWritten ? classifyIndex(rows, getRowIndex(put)) : RowIndex::None;
  bool adds = put && put.getAccumulate().value_or(false);
  if (index == RowIndex::Rows && !adds && shapeOf(put.getSelf())[0] == rows.rows)
    return replaceWithRows(op, read(value));
  if (index == RowIndex::Tokens && adds) {
    Value tokenRows = read(value);
    Shape shape(shapeOf(tokenRows));
    shape[0] = rows.perToken;
    shape.insert(shape.begin(), rows.tokens());
    Value sum = b.sum(b.view(tokenRows, shape), {1}, false);
    if (!isa_and_nonnull<aten::ZerosOp, aten::NewZerosOp, aten::ZerosLikeOp>(
            put.getSelf().getDefiningOp()))
      sum = b.add(put.getSelf(), sum);
    op->getResult(0).replaceAllUsesWith(sum);
    return;
  }
  use.set(readSorted(value));
}

void RowsRewriter::erase(Operation *op) {
  if (!op || !isOpTriviallyDead(op))
    return;
  SmallVector<Operation *> makers;
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp(); maker && !llvm::is_contained(makers, maker))
      makers.push_back(maker);
  erased.insert(op);
  op->erase();
  for (Operation *maker : makers)
    if (!erased.contains(maker))
      erase(maker);
}

void RowsRewriter::rewrite() {
  // Rows may be made before they are counted: the order of ops is mended at the end.
  Operation *sort = rows.order.getDefiningOp(), *counts = rows.ends.getDefiningOp();
  Operation *later = sort->isBeforeInBlock(counts) ? counts : sort;
  startAt(sort);
  builder.setInsertionPointAfter(later);
  makeNumbers();

  SmallVector<OpOperand *> uses;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (rows.hasRows(result))
        for (OpOperand &use : result.getUses())
          if (!rows.ops.contains(use.getOwner()))
            uses.push_back(&use);
  for (Operation *op : ops)
    clone(op);
  for (OpOperand *use : uses)
    leave(*use);
  // What is of no use any more: from what took rows to what made them.
  llvm::SetVector<Operation *> left;
  for (OpOperand *use : uses)
    left.insert(use->getOwner());
  left.insert(ops.rbegin(), ops.rend());
  for (auto &[value, dim] : rows.values)
    if (Operation *op = value.getDefiningOp())
      left.insert(op);
  Block *block = sort->getBlock();
  for (Operation *op : left)
    if (!erased.contains(op))
      erase(op);
  sortTopologically(block);
}
