//===- SequenceMajor.cpp - rows of a batch, sequence positions first --------===//
//
// A linear layer merges batch and sequence to rows, example by example. Where the sequence is
// sharded, a rank's rows are then scattered over all rows, which no S(d) describes. In the order of
// positions they are a shard. Where the batch is sharded as well, its shards come first and the
// positions of each next, so that a rank's rows are a shard of a shard. Rows may come in any order
// where every op treats them alike, which is what a sharding rule says that has a factor for them.
//
//===----------------------------------------------------------------------===//

#include "passes/placement/Passes.h"

#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/View.h"
#include "dialects/dist/Placed.h"
#include "dialects/sharding/ShardingRule.h"
#include "lib/aten/AtenBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace cleave::placement {
#define GEN_PASS_DEF_SEQUENCEMAJOR
#include "passes/placement/Passes.h.inc"
} // namespace cleave::placement

using namespace mlir;
using namespace cleave;
using aten::Shape;
using aten::shapeOf;
using sharding::FactorId;
using sharding::ShardingRule;
using sharding::TensorFactors;

namespace {

/// What rows are made of.
struct Rows {
  int64_t batch, sequence;
  int64_t count() const { return batch * sequence; }
};

/// The values that hold rows of one kind, closed under the ops that use and make them.
class RowRegion {
public:
  explicit RowRegion(Rows rows) : rows(rows) {}

  /// Takes in everything that `merge`'s rows reach; false if rows have to keep their order.
  bool grow(Operation *merge);
  /// Puts sequence positions first in each of so many shards of the batch. `grow` has succeeded.
  void reorder(int64_t shards);

  /// The merging views that were reached, whether or not `grow` succeeded.
  llvm::SetVector<Operation *> merges;

private:
  bool isMerge(Operation *op) const;
  bool isSplit(Operation *op) const;
  bool add(Value value, int64_t dim);
  bool addOp(Operation *op, const TensorFactors &tensor, int64_t dim);
  static bool mayPermute(Operation *op, const ShardingRule &rule, FactorId factor);

  Rows rows;
  /// The dimension of each value that counts rows.
  llvm::MapVector<Value, int64_t> dims;
  llvm::SetVector<Operation *> splits;
};

} // namespace

static bool isView(Operation *op) {
  return isa_and_nonnull<aten::ViewOp, aten::UnsafeViewOp>(op);
}

/// What a view merges into its result's first dimension, if it merges the first two so.
static std::optional<Rows> mergedRows(Operation *op) {
  if (!isView(op))
    return std::nullopt;
  ArrayRef<int64_t> from = shapeOf(op->getOperand(0)), to = shapeOf(op->getResult(0));
  if (from.size() < 2 || to.empty() || from[0] < 2 || from[1] < 2 || to[0] != from[0] * from[1])
    return std::nullopt;
  return Rows{from[0], from[1]};
}

bool RowRegion::isMerge(Operation *op) const {
  std::optional<Rows> merged = op ? mergedRows(op) : std::nullopt;
  return merged && merged->batch == rows.batch && merged->sequence == rows.sequence;
}

bool RowRegion::isSplit(Operation *op) const {
  if (!isView(op))
    return false;
  ArrayRef<int64_t> to = shapeOf(op->getResult(0));
  return to.size() >= 2 && to[0] == rows.batch && to[1] == rows.sequence;
}

//===----------------------------------------------------------------------===//
// What rows reach
//===----------------------------------------------------------------------===//

/// Whether another order of the factor's elements gives the same results in that order: what holds
/// of any parts holds of single elements. A mean of losses is not a sum of parts' means, but does
/// not know an order either.
bool RowRegion::mayPermute(Operation *op, const ShardingRule &rule, FactorId factor) {
  if (rule.isOpaque() || rule.kind == sharding::OpKind::Random)
    return false;
  if (!rule.factors[factor].isWhole())
    return true;
  if (isa<aten::NllLossForwardOp>(op))
    return rule.operands[0].size() == 2 && rule.operands[0][0] == sharding::DimFactors{factor};
  return isa<aten::MseLossBackwardOp>(op);
}

bool RowRegion::add(Value value, int64_t dim) {
  auto [it, isNew] = dims.try_emplace(value, dim);
  if (!isNew)
    return it->second == dim;
  if (shapeOf(value)[dim] != rows.count())
    return false;
  Operation *made = value.getDefiningOp();
  if (!made)
    return false;
  if (isMerge(made) && dim == 0) {
    merges.insert(made);
  } else {
    ShardingRule rule = sharding::getShardingRule(made);
    if (!addOp(made, rule.results[cast<OpResult>(value).getResultNumber()], dim))
      return false;
  }
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (isSplit(user) && dim == 0) {
      splits.insert(user);
      continue;
    }
    ShardingRule rule = sharding::getShardingRule(user);
    if (llvm::is_contained(rule.shapeOnly, use.getOperandNumber()))
      continue;
    if (rule.isOpaque() || use.getOperandNumber() >= rule.operands.size() ||
        !addOp(user, rule.operands[use.getOperandNumber()], dim))
      return false;
  }
  return true;
}

/// All tensors of the op that have the factor that dimension `dim` of `tensor` is.
bool RowRegion::addOp(Operation *op, const TensorFactors &tensor, int64_t dim) {
  ShardingRule rule = sharding::getShardingRule(op);
  if (rule.isOpaque() || dim >= int64_t(tensor.size()) || tensor[dim].size() != 1)
    return false;
  FactorId factor = tensor[dim][0];
  if (!mayPermute(op, rule, factor))
    return false;
  auto addAll = [&](ValueRange values, ArrayRef<TensorFactors> tensors, bool areOperands) {
    for (auto [number, value] : llvm::enumerate(values)) {
      if (areOperands && llvm::is_contained(rule.shapeOnly, number))
        continue;
      for (auto [at, factors] : llvm::enumerate(tensors[number]))
        if (llvm::is_contained(factors, factor) && (factors.size() != 1 || !add(value, at)))
          return false;
    }
    return true;
  };
  return addAll(op->getOperands(), rule.operands, true) &&
         addAll(op->getResults(), rule.results, false);
}

bool RowRegion::grow(Operation *merge) {
  merges.insert(merge);
  return add(merge->getResult(0), 0);
}

//===----------------------------------------------------------------------===//
// Another order
//===----------------------------------------------------------------------===//

/// Dimensions `dim` and `dim + 1` exchanged, in memory too.
static Value exchanged(aten::AtenBuilder &b, Value value, int64_t dim) {
  Value turned = b.transpose(value, dim, dim + 1);
  return b.makeLike<aten::CloneOp>(turned, turned, b.string("memory_format", "contiguous_format"));
}

static SmallVector<NamedAttribute> trainAttributes(Operation *op) {
  SmallVector<NamedAttribute> kept;
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (attribute.getName().getValue().starts_with("train."))
      kept.push_back(attribute);
  return kept;
}

void RowRegion::reorder(int64_t shards) {
  // Where the whole batch is one shard, there is no dimension of shards.
  int64_t dim = shards > 1;
  for (Operation *merge : merges) {
    OpBuilder builder(merge);
    aten::AtenBuilder b(builder, nullptr);
    b.setContext(merge->getLoc(), trainAttributes(merge));
    Value value = merge->getOperand(0);
    if (shards > 1) {
      Shape shape(shapeOf(value));
      shape.front() /= shards;
      shape.insert(shape.begin(), shards);
      value = b.view(value, shape);
    }
    Value merged = b.view(exchanged(b, value, dim), shapeOf(merge->getResult(0)));
    merge->getResult(0).replaceAllUsesWith(merged);
    merge->erase();
  }
  for (Operation *split : splits) {
    OpBuilder builder(split);
    aten::AtenBuilder b(builder, nullptr);
    b.setContext(split->getLoc(), trainAttributes(split));
    Shape whole(shapeOf(split->getResult(0))), shape = whole;
    shape.front() /= shards;
    std::swap(shape[0], shape[1]);
    if (shards > 1)
      shape.insert(shape.begin(), shards);
    Value value = exchanged(b, b.view(split->getOperand(0), shape), dim);
    split->getResult(0).replaceAllUsesWith(shards > 1 ? b.view(value, whole) : value);
    split->erase();
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct SequenceMajor : placement::impl::SequenceMajorBase<SequenceMajor> {
  using SequenceMajorBase::SequenceMajorBase;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (dist::isPlaced(function)) {
      function.emitError("expects a program without annotations: replaced values would lose "
                         "their placements; run --sequence-major first");
      return signalPassFailure();
    }
    if (batchShards < 1) {
      function.emitError("expects a positive number of 'batch-shards', found ")
          << int64_t(batchShards);
      return signalPassFailure();
    }
    SmallVector<Operation *> views;
    function.walk([&](Operation *op) {
      std::optional<Rows> rows = mergedRows(op);
      if (rows && rows->batch % batchShards == 0 && rows->batch > batchShards &&
          !dist::getPlacement(op->getResult(0).getType()))
        views.push_back(op);
    });
    DenseSet<Operation *> seen;
    for (Operation *view : views) {
      if (seen.contains(view))
        continue;
      RowRegion region(*mergedRows(view));
      bool isFree = region.grow(view);
      seen.insert(view);
      if (!isFree)
        continue;
      seen.insert(region.merges.begin(), region.merges.end());
      numMerges += region.merges.size();
      region.reorder(batchShards);
    }
  }
};

} // namespace
