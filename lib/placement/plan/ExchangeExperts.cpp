//===- ExchangeExperts.cpp - rows sorted by expert become rows in parts ----===//
//
// Sorted rows of all ranks become a part for each rank along the axis, with the rows of its experts
// in the same order, then room. A row's number, part * room + place, follows from numbers of rows
// by source rank and expert: each rank sorts its own rows, and only counts are shared. An
// `index_put` writes rows by number, an `index` reads them again, as rows of tokens in the tokens'
// order; partitioned, both are an exchange of as many rows as there are (forms/ExchangedRows.cpp).
// On one device the rewritten program computes what it did.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/plan/ExpertRows.h"

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Placed.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/aten/AtenBuilder.h"
#include "lib/placement/plan/Apply.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"

#include <cmath>

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

namespace {

/// Rewrites the rows of one sort.
class RowsRewriter {
public:
  /// `room`: of each of `parts` parts, one a rank along `axis`.
  RowsRewriter(const ExpertRows &rows, dist::MeshOp mesh, StringRef axis, int64_t parts,
               int64_t room)
      : rows(rows), mesh(mesh), axis(axis), parts(parts), room(room), builder(mesh.getContext()),
        b(builder, {}) {
    llvm::append_range(ops, rows.ops);
    llvm::sort(ops, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  }

  /// Whether all values from outside have rows along dimension 0.
  bool canRewrite() const {
    return llvm::all_of(rows.values, [&](auto &each) {
      return each.second == 0 || rows.ops.contains(each.first.getDefiningOp());
    });
  }
  void rewrite();

private:
  void startAt(Operation *op) {
    builder.setInsertionPoint(op);
    SmallVector<NamedAttribute> kept;
    for (NamedAttribute attribute : op->getDiscardableAttrs())
      if (attribute.getName().getValue().starts_with("train."))
        kept.push_back(attribute);
    b.setContext(op->getLoc(), kept);
  }

  // Numbers of rows in the parts.
  void makeNumbers();
  Value byToken(Value value);
  Value getSortedNumbers();

  // Rows of tokens in the tokens' order, and rows in parts.
  Value write(Value tokenRows, Value numbers);
  Value read(Value partRows, Value numbers);
  Value expandTokens(Value tokens);
  Value enter(Value sorted);
  Value get(Value sorted);
  void clone(Operation *op);
  void leave(OpOperand &use);
  void replaceWithRows(Operation *op, Value tokenRows);

  Value mark(Value value, ArrayRef<int64_t> operandDims);
  void erase(Operation *op);

  Value cumsum(Value value, int64_t dim) {
    return b.makeLike<aten::CumsumOp>(value, value, b.integer("dim", dim));
  }
  Value floorDivide(Value value, int64_t by) {
    return b.makeLike<aten::FloorDivideScalarOp>(value, value, b.named("other", b.scalar(by)));
  }
  Value arange(int64_t size) {
    Type i64 = builder.getI64Type();
    return b.make<aten::ArangeOp>({size}, i64, {},
                                  {b.named("end", b.scalar(size)), b.dtype("dtype", i64)});
  }

  const ExpertRows &rows;
  dist::MeshOp mesh;
  StringRef axis;
  int64_t parts, room;
  OpBuilder builder;
  AtenBuilder b;

  SmallVector<Operation *> ops;
  /// By row of a token.
  Value numbers;
  /// The same in the order of the sort; made where it is needed.
  Value sortedNumbers;
  /// In the parts, as running sums over all of them.
  Value ends;
  llvm::DenseMap<Value, Value> inParts;
  llvm::DenseSet<Operation *> erased;
};

} // namespace

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
  int64_t own = rows.rows / parts, perPart = rows.experts / parts;

  // Where experts' rows begin and end, from where those of their part do.
  Value all = b.view(b.toType(rows.ends, i64), {parts, perPart});
  Value last = b.slice(all, 1, perPart - 1, perPart);
  Value before = b.cat({b.zeros({1, 1}, i64), b.slice(last, 0, 0, parts - 1)}, 0);
  Value inPart = b.sub(all, before);
  Value begins = b.mulScalar(b.unsqueeze(arange(parts), 1), b.scalar(room));
  ends = b.toType(b.view(b.add(inPart, begins), {rows.experts}), dtypeOf(rows.ends));
  Value first = b.cat({b.zeros({parts, 1}, i64), b.slice(inPart, 1, 0, perPart - 1)}, 1);
  first = b.view(first, {1, rows.experts});

  // Each source's rows, sorted: an expert's come after those of the sources before it.
  Value keys = b.view(byToken(rows.keys), {parts, own});
  Value ones = b.makeLike<aten::OnesLikeOp>(keys, keys);
  Value counts = b.zeros({parts, rows.experts}, i64);
  counts = b.makeLike<aten::ScatterAddOp>(counts, {counts, keys, ones}, b.integer("dim", 1));
  Value shift = b.add(b.sub(cumsum(counts, 0), cumsum(counts, 1)), first);
  Operation *sorted = b.create<aten::SortStableOp>(
      {keys.getType(), keys.getType()}, keys, {b.boolean("stable", true), b.integer("dim", 1)});
  Value expert = sorted->getResult(0), order = sorted->getResult(1);
  Value place = b.makeLike<aten::GatherOp>(expert, {shift, expert}, b.integer("dim", 1));
  place = b.add(place, b.unsqueeze(arange(own), 0));
  Value part = floorDivide(expert, perPart);
  Value number = b.add(place, b.mulScalar(part, b.scalar(room)));
  if (room < rows.rows) {
    Value beyond = b.add(place, b.mulScalar(part, b.scalar(rows.rows)));
    beyond = b.addScalar(beyond, b.scalar(room * parts));
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
/// -1 are whole.
Value RowsRewriter::mark(Value value, ArrayRef<int64_t> operandDims) {
  Operation *op = value.getDefiningOp();
  op->setAttr(dist::kPartsAttr, builder.getI64IntegerAttr(parts));
  auto on = [&](int64_t dim) {
    auto placement = dim < 0 ? AxisPlacement::replicate() : AxisPlacement::shard(dim);
    auto reference = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
    return PlacementAttr::get(reference, {{builder.getStringAttr(axis), placement}});
  };
  for (auto [operand, dim] : llvm::zip_equal(op->getOpOperands(), operandDims))
    dist::setPlacementOf(operand, on(dim));
  dist::setPlacementOf(value, on(0));
  return value;
}

Value RowsRewriter::write(Value tokenRows, Value places) {
  Shape shape(shapeOf(tokenRows));
  shape[0] = parts * room;
  Value zeros = b.zeros(shape, dtypeOf(tokenRows));
  return mark(b.makeLike<aten::IndexPutOp>(zeros, {zeros, places, tokenRows}), {0, 0, 0});
}

Value RowsRewriter::read(Value partRows, Value places) {
  Shape shape(shapeOf(partRows));
  shape[0] = rows.rows;
  return mark(b.make<aten::IndexOp>(shape, dtypeOf(partRows), {partRows, places}), {0, 0});
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
    return write(byToken(rows.keys), numbers);
  auto index = dyn_cast_or_null<aten::IndexOp>(op);
  switch (index ? classifyIndex(rows, getRowIndex(index)) : RowIndex::None) {
  case RowIndex::Tokens:
    return write(expandTokens(index.getSelf()), numbers);
  case RowIndex::Rows:
    return write(byToken(index.getSelf()), numbers);
  case RowIndex::None:
    break;
  }
  return write(sorted, getSortedNumbers());
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
    shape[at->second] = parts * room;
    to.setType(RankedTensorType::get(shape, dtypeOf(from)));
    inParts[from] = to;
  }
  if (auto product = dyn_cast<aten::GroupedMmOp>(copy)) {
    product.getOffsMutable().assign(ends);
    bool isSum = rankOf(product.getMat2()) == 2;
    mark(product.getResult(), {isSum ? 1 : 0, 0, -1});
  }
  for (const sharding::SizeAttribute &size : sharding::getShardingRule(op).sizeAttributes)
    if (size.source == sharding::SizeAttribute::ResultShape && copy->hasAttr(size.name))
      copy->setAttr(size.name, builder.getDenseI64ArrayAttr(shapeOf(copy->getResult(size.index))));
  for (auto [from, to] : llvm::zip_equal(op->getResults(), copy->getResults()))
    if (!rows.hasRows(from))
      from.replaceAllUsesWith(to);
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
    return replaceWithRows(op, read(value, numbers));
  if (index == RowIndex::Tokens && adds) {
    Value tokenRows = read(value, numbers);
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
  use.set(read(value, getSortedNumbers()));
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

//===----------------------------------------------------------------------===//
// Rules
//===----------------------------------------------------------------------===//

/// Whether the batch is divided along the axis and along no other.
static bool dividesBatchAlone(const Plan &plan, StringRef axis) {
  bool divides = false, alone = true;
  for (const PlanRule &rule : plan.rules) {
    if (rule.kind != PlanRule::Kind::Module || !rule.pattern.empty())
      continue;
    SmallVector<StringRef, 2> axes;
    if (rule.style == Style::Data || rule.style == Style::FSDP || rule.style == Style::HSDP)
      axes.push_back(rule.axis);
    if (rule.style == Style::HSDP)
      axes.push_back(rule.replicateAxis);
    for (StringRef each : axes)
      (each == axis ? divides : alone) = each == axis;
  }
  return divides && alone;
}

/// The products by group of the modules' experts: their own, or of stacked weights of theirs.
static llvm::SetVector<aten::GroupedMmOp> findProducts(func::FuncOp function, StringRef pattern) {
  llvm::SetVector<aten::GroupedMmOp> products;
  for (auto product : function.getOps<aten::GroupedMmOp>())
    if (product.getOffs() && isInModules(product, pattern))
      products.insert(product);
  SmallVector<OpOperand *> uses;
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (role && role.getKind() == train::RoleKind::Parameter &&
        isNameIn(role.getNameOrEmpty(), pattern))
      findGroupedProducts(argument, uses);
  }
  for (OpOperand *use : uses)
    if (auto product = cast<aten::GroupedMmOp>(use->getOwner()); product.getOffs())
      products.insert(product);
  return products;
}

LogicalResult placement::exchangeExpertRows(dist::MeshOp mesh, func::FuncOp function,
                                            const Plan &plan, unsigned &count) {
  for (const PlanRule &rule : plan.rules) {
    if (rule.kind != PlanRule::Kind::Module || rule.style != Style::Expert)
      continue;
    dist::AxisAttr found = mesh.findAxis(rule.axis);
    int64_t parts = found ? found.getSize() : 1;
    if (parts < 2 || (!rule.capacity && !dividesBatchAlone(plan, rule.axis)))
      continue;
    bool exchanges = false;
    llvm::SmallPtrSet<void *, 16> seen;
    SmallVector<aten::GroupedMmOp> products;
    for (aten::GroupedMmOp product : findProducts(function, rule.pattern))
      if (seen.insert(product.getOffs().getAsOpaquePointer()).second)
        products.push_back(product);
    for (aten::GroupedMmOp product : products) {
      std::optional<ExpertRows> rows = findExpertRows(product);
      if (!rows || rows->rows % parts || rows->experts % parts || rows->tokens() % parts)
        continue;
      // Gathered, a token crosses once, whatever the number of its rows.
      if (!rule.capacity && rows->perToken >= parts)
        continue;
      double share = double(rows->rows) / double(parts);
      int64_t room = rule.capacity ? int64_t(std::ceil(share * *rule.capacity)) : rows->rows;
      RowsRewriter rewriter(*rows, mesh, rule.axis, parts, std::min(room, rows->rows));
      if (!rewriter.canRewrite())
        continue;
      rewriter.rewrite();
      exchanges = true;
      ++count;
    }
    if (rule.capacity && !exchanges)
      return emitError(FileLineColLoc::get(mesh.getContext(), rule.file, rule.line, 0))
             << rule.name << " has a capacity, but in '" << rule.pattern
             << "' there are no rows sorted by expert (aten._grouped_mm) of tokens and experts "
             << "that the " << parts << " ranks along \"" << rule.axis << "\" divide";
  }
  return success();
}
