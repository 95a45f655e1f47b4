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

/// What no rank has: marks the targets that a rank ignores.
static constexpr int64_t ignored = -100;

/// The dimension of classes: that of a single example, or the one after the batch.
static int64_t classDim(Value self) {
  return rankOf(self) == 1 ? 0 : 1;
}

/// Whether classes may be sharded along the axis: a rank's number is subtracted from targets.
template <typename OpTy> static bool mayShardClasses(OpTy op, MeshAxis axis) {
  return dividesEvenly(shapeOf(op.getSelf())[classDim(op.getSelf())], axis) &&
         dtypeOf(op.getTarget()).isSignlessInteger(64);
}

/// `self` sharded by class, and S(0) for `weight`.
template <typename OpTy> static void shardClasses(OpTy op, AxisStrategy &strategy) {
  strategy.operands[*operandNumber(op, "self")] = AxisPlacement::shard(classDim(op.getSelf()));
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

template <typename OpTy> class ForwardForm : public Form {
public:
  StringRef name() const override {
    return "negative log likelihood of a sharded batch or classes";
  }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto loss = cast<OpTy>(op);
    ArrayRef<int64_t> shape = shapeOf(loss.getSelf());
    int64_t weightBytes = bytesOf(loss.getTotalWeight()), classes = classDim(loss.getSelf());
    for (int64_t dim = 0, rank = shape.size(); dim < rank; ++dim) {
      if (loss.getReduction() != aten::meanReduction || dim == classes ||
          !dividesEvenly(shape[dim], axis))
        continue;
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      strategy.operands[*operandNumber(op, "self")] = AxisPlacement::shard(dim);
      // Targets lack the dimension of classes.
      strategy.operands[*operandNumber(op, "target")] = AxisPlacement::shard(dim - (dim > classes));
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
    auto loss = cast<OpTy>(op);
    LocalBuilder b(op, operands, form);
    Value self = operands[0], targets = operands[1];
    int64_t ignoreIndex = loss.getIgnoreIndex(), reduction = loss.getReduction();
    bool isMean = reduction == aten::meanReduction;
    Axes classes = b.axesOf(self, classDim(self)), batch;
    for (int64_t dim = 0; dim < rankOf(self); ++dim)
      if (dim != classDim(self))
        batch = batch + b.axesOf(self, dim);
    if (!classes.empty()) {
      targets = localTargets(b, targets, shapeOf(self)[classDim(self)], ignoreIndex, classes);
      ignoreIndex = ignored;
    }
    SmallVector<Value> inputs(operands);
    inputs[1] = targets;
    SmallVector<Type> types = {
        RankedTensorType::get(
            reduction == aten::noReduction ? shapeOf(targets) : ArrayRef<int64_t>(), dtypeOf(self)),
        RankedTensorType::get({}, dtypeOf(self))};
    Operation *local =
        b.create<OpTy>(types, inputs,
                       {b.integer("reduction", isMean ? aten::sumReduction : reduction),
                        b.integer("ignore_index", ignoreIndex)});
    // Along the batch the sums are pending by the op's rule; along the classes they only vary.
    Value sum = b.asPartial(local->getResult(0), classes);
    // It depends on the targets alone.
    Value weight = b.withoutGradient(local->getResult(1));
    weight = b.allReduce(b.asPartial(weight, classes), batch + classes);
    return b.finish({isMean ? b.div(sum, weight) : sum, weight});
  }
};

template <typename OpTy> class BackwardForm : public Form {
public:
  StringRef name() const override {
    return "gradient of the negative log likelihood of sharded classes";
  }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto backward = cast<OpTy>(op);
    if (!mayShardClasses(backward, axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    shardClasses(backward, strategy);
    strategy.results[0] = AxisPlacement::shard(classDim(backward.getSelf()));
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto backward = cast<OpTy>(op);
    LocalBuilder b(op, operands, form);
    unsigned target = *operandNumber(op, "target");
    Value self = operands[*operandNumber(op, "self")];
    int64_t dim = classDim(self);
    Axes axes = b.axesOf(self, dim);
    SmallVector<Value> inputs(operands);
    inputs[target] =
        localTargets(b, inputs[target], shapeOf(self)[dim], backward.getIgnoreIndex(), axes);
    Value result = b.makeLike<OpTy>(
        self, inputs,
        {b.integer("reduction", backward.getReduction()), b.integer("ignore_index", ignored)});
    return b.finish(b.asShard(result, dim, axes));
  }
};

} // namespace

void placement::addNegativeLogLikelihoodForms(FormTable &table) {
  static const ForwardForm<aten::NllLossForwardOp> forward;
  static const ForwardForm<aten::NllLoss2dForwardOp> forwardOfPixels;
  static const BackwardForm<aten::NllLossBackwardOp> backward;
  static const BackwardForm<aten::NllLoss2dBackwardOp> backwardOfPixels;
  table.add(aten::NllLossForwardOp::getOperationName(), &forward);
  table.add(aten::NllLoss2dForwardOp::getOperationName(), &forwardOfPixels);
  table.add(aten::NllLossBackwardOp::getOperationName(), &backward);
  table.add(aten::NllLoss2dBackwardOp::getOperationName(), &backwardOfPixels);
}
