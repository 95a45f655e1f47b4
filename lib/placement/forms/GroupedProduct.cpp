//===- GroupedProduct.cpp - experts on several ranks ----------------------===//
//
// Where the groups' matrices are sharded (expert parallelism), a rank multiplies the rows of its
// own groups. It turns the rows round until these come first, since groups begin at 0, and turns
// the product back: terms of a sum, zeros elsewhere. Where the rows are sharded, the ends of the
// groups are those within the rank's rows.
//
// Rows sorted by expert are put back by an `index_put` whose indices name each row once, which
// ranks that have parts of the rows can do by themselves: terms of a sum again.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Creation.h"
#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/ops/Indexing.h"
#include "dialects/aten/ops/Ordering.h"
#include "dialects/train/Program.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

//===----------------------------------------------------------------------===//
// Products by group
//===----------------------------------------------------------------------===//

/// Where groups stand in a `_grouped_mm`.
struct Groups {
  struct Place {
    unsigned operand;
    int64_t dim;
  };
  /// The operands' dimension that groups divide; the result's, unless it is summed.
  SmallVector<Place, 2> divided;
  std::optional<int64_t> dividedResult;
  /// The operand with a matrix for each group; none if that is the result.
  std::optional<unsigned> matrices;

  static Groups of(aten::GroupedMmOp op) {
    bool isLeft2d = rankOf(op.getSelf()) == 2, isRight2d = rankOf(op.getMat2()) == 2;
    if (isLeft2d && isRight2d)
      return {{{0, 1}, {1, 0}}, std::nullopt, std::nullopt};
    if (isLeft2d)
      return {{{0, 0}}, 0, 1};
    return {{{1, 1}}, 1, 0};
  }
};

class GroupedProductForm : public Form {
public:
  StringRef name() const override { return "product by groups that ranks share"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto product = cast<aten::GroupedMmOp>(op);
    if (!product.getOffs())
      return;
    Groups groups = Groups::of(product);
    Groups::Place rows = groups.divided.front();
    if (dividesEvenly(shapeOf(op->getOperand(rows.operand))[rows.dim], axis)) {
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      for (Groups::Place place : groups.divided)
        strategy.operands[place.operand] = AxisPlacement::shard(place.dim);
      strategy.results[0] = groups.dividedResult ? AxisPlacement::shard(*groups.dividedResult)
                                                 : AxisPlacement::partial();
    }
    if (dividesEvenly(shapeOf(product.getOffs())[0], axis)) {
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      if (groups.matrices)
        strategy.operands[*groups.matrices] = AxisPlacement::shard(0);
      strategy.results[0] = groups.matrices ? AxisPlacement::partial() : AxisPlacement::shard(0);
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy> strategies,
                    FormBuilder &form) const override {
    auto product = cast<aten::GroupedMmOp>(op);
    Groups groups = Groups::of(product);
    LocalBuilder b(op, operands, form);
    Groups::Place rows = groups.divided.front();
    Axes rowAxes = b.axesOf(operands[rows.operand], rows.dim);
    Axes groupAxes =
        groups.matrices ? b.axesOf(operands[*groups.matrices], 0) : b.axesOf(strategies, 0, 0);
    int64_t count = shapeOf(operands[rows.operand])[rows.dim];

    SmallVector<Value> inputs(operands);
    for (Groups::Place place : groups.divided)
      inputs[place.operand] = b.asVarying(inputs[place.operand], rowAxes + groupAxes);
    if (groups.matrices)
      inputs[*groups.matrices] = b.asVarying(inputs[*groups.matrices], groupAxes);
    Value &ends = inputs[2];
    if (!rowAxes.empty())
      ends = b.makeLike<aten::ClampOp>(
          ends, b.localIndices(ends, count, rowAxes),
          {b.named("min", b.scalar(int64_t(0))), b.named("max", b.scalar(count))});
    Value begin;
    if (!groupAxes.empty()) {
      begin = takeOwnGroups(b, ends, groupAxes);
      Value places = turned(b, b.add(b.arange(count), begin), count);
      for (Groups::Place place : groups.divided)
        inputs[place.operand] = b.indexSelect(inputs[place.operand], place.dim, places);
    }

    Shape shape(shapeOf(op->getResult(0)));
    if (groups.dividedResult)
      shape[*groups.dividedResult] = count;
    else
      shape[0] = shapeOf(ends)[0];
    localizeRest(shape, groups, inputs);
    SmallVector<NamedAttribute> attributes = {b.segments({1, 1, 1, 0})};
    if (std::optional<Type> type = product.getOutDtype())
      attributes.push_back(b.dtype("out_dtype", *type));
    Value result = b.make<aten::GroupedMmOp>(shape, dtypeOf(op->getResult(0)), inputs, attributes);

    if (!groupAxes.empty() && groups.dividedResult) {
      int64_t dim = *groups.dividedResult, own = shapeOf(ends)[0];
      Value beyond = b.compare<aten::GeOp>(b.arange(count), b.slice(ends, 0, own - 1, own));
      result = b.maskedFill(result, dim == 0 ? b.unsqueeze(beyond, 1) : beyond, b.scalar(0.0));
      result = b.indexSelect(result, dim, turned(b, b.sub(b.arange(count), begin), count));
    }
    result = groups.dividedResult ? b.asShard(result, *groups.dividedResult, rowAxes)
                                  : b.asPartial(result, rowAxes);
    return b.finish(groups.matrices ? b.asPartial(result, groupAxes)
                                    : b.asShard(result, 0, groupAxes));
  }

private:
  /// Makes `ends` those of the rank's groups, counted from where the first of them begins, which
  /// is returned: one number.
  static Value takeOwnGroups(LocalBuilder &b, Value &ends, const Axes &axes) {
    int64_t all = shapeOf(ends)[0], own = all / axes.ranks;
    Value begins = b.cat({b.zeros({1}, dtypeOf(ends)), b.slice(ends, 0, 0, all - 1)}, 0);
    Value numbers = b.add(b.arange(own), b.mulScalar(b.rankAlong(axes), b.scalar(own)));
    Value begin = b.indexSelect(begins, 0, b.slice(numbers, 0, 0, 1));
    ends = b.sub(b.indexSelect(ends, 0, numbers), begin);
    return begin;
  }

  /// Places brought back into 0 to `count` - 1.
  static Value turned(LocalBuilder &b, Value places, int64_t count) {
    return b.makeLike<aten::RemainderScalarOp>(places, places, b.named("other", b.scalar(count)));
  }

  /// The dimensions that no group divides, which other axes may have cut.
  static void localizeRest(Shape &shape, const Groups &groups, ArrayRef<Value> inputs) {
    size_t rank = shape.size();
    if (groups.dividedResult != int64_t(rank) - 2)
      shape[rank - 2] = *(shapeOf(inputs[0]).end() - 2);
    if (groups.dividedResult != int64_t(rank) - 1)
      shape[rank - 1] = shapeOf(inputs[1]).back();
  }
};

//===----------------------------------------------------------------------===//
// Rows put back
//===----------------------------------------------------------------------===//

/// Whether `places` are the indices of a sort: of this function, or of the forward that saves them.
bool areSortIndices(Value places) {
  if (auto result = dyn_cast<OpResult>(places))
    return isa<aten::SortOp, aten::SortStableOp>(result.getOwner()) &&
           result.getResultNumber() == 1;
  auto argument = cast<BlockArgument>(places);
  auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
  auto module = function ? function->getParentOfType<ModuleOp>() : ModuleOp();
  train::RoleAttr role =
      module ? train::getArgumentRole(function, argument.getArgNumber()) : train::RoleAttr();
  if (!role || role.getKind() != train::RoleKind::Saved)
    return false;
  // While the program is partitioned, its forward is there twice, as it was and of one rank.
  return llvm::any_of(module.getOps<func::FuncOp>(), [&](func::FuncOp other) {
    for (unsigned i = 0; !other.isExternal() && i < other.getNumResults(); ++i) {
      Value saved = other.front().getTerminator()->getOperand(i);
      if (train::getResultRole(other, i) == role && isa<OpResult>(saved) && areSortIndices(saved))
        return true;
    }
    return false;
  });
}

/// Whether `op` writes all rows of `self`, each once: the indices are those of a sort.
bool isPermutation(aten::IndexPutOp op) {
  if (op.getAccumulate().value_or(false) || op.getIndices().size() != 1)
    return false;
  if (std::optional<ArrayRef<bool>> present = op.getIndicesPresent();
      present && !present->empty() && !present->front())
    return false;
  Value places = op.getIndices().front();
  return areSortIndices(places) && rankOf(places) == 1 &&
         shapeOf(op.getValues()) == shapeOf(op.getSelf()) &&
         shapeOf(places)[0] == shapeOf(op.getSelf())[0];
}

class PermutationForm : public Form {
public:
  StringRef name() const override { return "rows put in another order by ranks that share them"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto put = cast<aten::IndexPutOp>(op);
    if (!isPermutation(put) || !dividesEvenly(shapeOf(put.getSelf())[0], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[1] = strategy.operands[2] = AxisPlacement::shard(0);
    strategy.results[0] = AxisPlacement::partial();
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Value places = operands[1], rows = operands[2];
    Axes axes = b.axesOf(rows, 0);
    Value zeros = b.makeLike<aten::ZerosLikeOp>(operands[0], operands[0]);
    Value put = b.makeLike<aten::IndexPutOp>(
        zeros, {zeros, b.asVarying(places, axes), b.asVarying(rows, axes)});
    return b.finish(b.asPartial(put, axes));
  }
};

} // namespace

void placement::addGroupedProductForms(FormTable &table) {
  static const GroupedProductForm product;
  static const PermutationForm permutation;
  table.add(aten::GroupedMmOp::getOperationName(), &product);
  table.add(aten::IndexPutOp::getOperationName(), &permutation);
}
