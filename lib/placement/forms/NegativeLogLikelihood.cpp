//===- NegativeLogLikelihood.cpp - means, and sharded classes -------------===//
//
// Where classes are sharded, a rank takes the targets among its own and ignores the others: its
// loss and weights are terms of sums. Where the batch is sharded, the mean divides by the weight of
// the whole batch, which is reduced; the loss itself stays a pending sum.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Loss.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

// Values of `reduction`.
enum : int64_t { noReduction = 0, meanReduction = 1, sumReduction = 2 };

/// What no rank has: marks the targets that a rank ignores.
static constexpr int64_t ignored = -100;

/// Whether classes may be sharded along the axis: a rank's number is subtracted from targets.
template <typename OpTy> static bool mayShardClasses(OpTy op, MeshAxis axis) {
  return dividesEvenly(shapeOf(op.getSelf()).back(), axis) &&
         dtypeOf(op.getTarget()).isSignlessInteger(64);
}

/// S(last) for `self` and S(0) for `weight`.
template <typename OpTy> static void shardClasses(OpTy op, AxisStrategy &strategy) {
  strategy.operands[*operandNumber(op, "self")] = AxisPlacement::shard(rankOf(op.getSelf()) - 1);
  if (std::optional<unsigned> weight = operandNumber(op, "weight"))
    strategy.operands[*weight] = AxisPlacement::shard(0);
}

/// `targets` among this rank's `classes`; `ignored` for the others and for those of `ignoreIndex`.
static Value localTargets(LocalBuilder &b, Value targets, int64_t classes, int64_t ignoreIndex,
                          const Axes &axes) {
  Value local = b.localIndices(targets, classes, axes);
  Value mask = b.compare<aten::LogicalOrOp>(
      b.outside(local, classes), b.compare<aten::EqScalarOp>(targets, b.scalar(ignoreIndex)));
  return b.maskedFill(local, mask, b.scalar(ignored));
}

namespace {

class ForwardForm : public Form {
public:
  StringRef name() const override {
    return "negative log likelihood of a sharded batch or classes";
  }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto loss = cast<aten::NllLossForwardOp>(op);
    bool isBatched = rankOf(loss.getSelf()) == 2;
    int64_t weightBytes = bytesOf(loss.getTotalWeight());
    if (loss.getReduction() == meanReduction && isBatched &&
        dividesEvenly(shapeOf(loss.getSelf())[0], axis)) {
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      strategy.operands[*operandNumber(op, "self")] = AxisPlacement::shard(0);
      strategy.operands[*operandNumber(op, "target")] = AxisPlacement::shard(0);
      strategy.results[0] = AxisPlacement::partial();
      strategy.bytes = allReduceBytes(weightBytes, axis);
    }
    if (mayShardClasses(loss, axis)) {
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      shardClasses(loss, strategy);
      strategy.results[0] = AxisPlacement::partial();
      strategy.bytes = allReduceBytes(weightBytes, axis);
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto loss = cast<aten::NllLossForwardOp>(op);
    LocalBuilder b(op, operands, form);
    Value self = operands[0], targets = operands[1];
    int64_t ignoreIndex = loss.getIgnoreIndex(), reduction = loss.getReduction();
    bool isMean = reduction == meanReduction;
    Axes classes = b.axesOf(self, rankOf(self) - 1), batch;
    if (rankOf(self) == 2)
      batch = b.axesOf(self, 0);
    if (!classes.empty()) {
      targets = localTargets(b, targets, shapeOf(self).back(), ignoreIndex, classes);
      ignoreIndex = ignored;
    }
    SmallVector<Value> inputs(operands);
    inputs[1] = targets;
    SmallVector<Type> types = {
        RankedTensorType::get(reduction == noReduction ? shapeOf(targets) : ArrayRef<int64_t>(),
                              dtypeOf(self)),
        RankedTensorType::get({}, dtypeOf(self))};
    Operation *local =
        b.create<aten::NllLossForwardOp>(types, inputs,
                                         {b.integer("reduction", isMean ? sumReduction : reduction),
                                          b.integer("ignore_index", ignoreIndex)});
    // Along the batch the sums are pending by the op's rule; along the classes they only vary.
    Value sum = b.asPartial(local->getResult(0), classes);
    // It depends on the targets alone.
    Value weight = b.withoutGradient(local->getResult(1));
    weight = b.allReduce(b.asPartial(weight, classes), batch + classes);
    return b.finish({isMean ? b.div(sum, weight) : sum, weight});
  }
};

class BackwardForm : public Form {
public:
  StringRef name() const override {
    return "gradient of the negative log likelihood of sharded classes";
  }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto backward = cast<aten::NllLossBackwardOp>(op);
    if (!mayShardClasses(backward, axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    shardClasses(backward, strategy);
    strategy.results[0] = AxisPlacement::shard(rankOf(backward.getSelf()) - 1);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto backward = cast<aten::NllLossBackwardOp>(op);
    LocalBuilder b(op, operands, form);
    unsigned target = *operandNumber(op, "target");
    Value self = operands[*operandNumber(op, "self")];
    int64_t dim = rankOf(self) - 1;
    Axes axes = b.axesOf(self, dim);
    SmallVector<Value> inputs(operands);
    inputs[target] =
        localTargets(b, inputs[target], shapeOf(self)[dim], backward.getIgnoreIndex(), axes);
    Value result = b.makeLike<aten::NllLossBackwardOp>(
        self, inputs,
        {b.integer("reduction", backward.getReduction()), b.integer("ignore_index", ignored)});
    return b.finish(b.asShard(result, dim, axes));
  }
};

} // namespace

void placement::addNegativeLogLikelihoodForms(FormTable &table) {
  static const ForwardForm forward;
  static const BackwardForm backward;
  table.add(aten::NllLossForwardOp::getOperationName(), &forward);
  table.add(aten::NllLossBackwardOp::getOperationName(), &backward);
}
