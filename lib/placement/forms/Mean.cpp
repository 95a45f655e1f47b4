//===- Mean.cpp - means over a sharded dimension --------------------------===//
//
// By their rules these are averages of averages, P(avg), which nothing but their own reduction
// takes. Divided by the number of all elements at once, a rank's sum is a term of the mean: P(sum),
// which a loss may stay.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Loss.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

// Values of `reduction`.
enum : int64_t { meanReduction = 1, sumReduction = 2 };

/// The operands' common shape.
static Shape broadcast(ValueRange operands) {
  Shape shape;
  for (Value operand : operands)
    shape = *aten::broadcastShapes(shape, shapeOf(operand));
  return shape;
}

/// What ranks take of an operand that broadcasts to `shape`, where dimension `dim` of this is
/// sharded.
static AxisPlacement partOf(Value operand, int64_t dim, ArrayRef<int64_t> shape) {
  int64_t at = dim - int64_t(shape.size()) + rankOf(operand);
  return at >= 0 && shapeOf(operand)[at] == shape[dim] ? AxisPlacement::shard(at)
                                                       : AxisPlacement::replicate();
}

/// Offers each dimension of the elements, of this shape, sharded; `result` is then the result's.
static void shardElements(Operation *op, const Form *form, MeshAxis axis, ArrayRef<int64_t> shape,
                          llvm::function_ref<AxisPlacement(int64_t)> result,
                          SmallVectorImpl<AxisStrategy> &strategies) {
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    if (!dividesEvenly(shape[dim], axis))
      continue;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, form));
    for (auto [operand, placement] : llvm::zip_equal(op->getOperands(), strategy.operands))
      placement = partOf(operand, dim, shape);
    strategy.results[0] = result(dim);
  }
}

/// The loss' attributes with a sum in place of the mean.
static SmallVector<NamedAttribute> asSum(Operation *op, LocalBuilder &b) {
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attribute : op->getAttrs())
    if (op->getInherentAttr(attribute.getName()) && attribute.getName().getValue() != "reduction")
      attributes.push_back(attribute);
  attributes.push_back(b.integer("reduction", sumReduction));
  return attributes;
}

namespace {

/// `mean` of all elements and `mean.dim`.
class MeanForm : public Form {
public:
  StringRef name() const override { return "mean over a sharded dimension, as a sum"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    for (int64_t dim : dimsOf(op)) {
      if (!dividesEvenly(shapeOf(op->getOperand(0))[dim], axis))
        continue;
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      strategy.operands[0] = AxisPlacement::shard(dim);
      strategy.results[0] = AxisPlacement::partial();
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Shape dims = dimsOf(op);
    int64_t count = 1;
    for (int64_t dim : dims)
      count *= shapeOf(op->getOperand(0))[dim];
    bool keepDims = rankOf(op->getResult(0)) == rankOf(op->getOperand(0)) && !dims.empty();
    Value input = b.toType(operands[0], dtypeOf(op->getResult(0)));
    Value sum = isa<aten::MeanOp>(op) ? b.sum(input) : b.sum(input, dims, keepDims);
    return b.finish(b.divScalar(sum, b.scalar(double(count))));
  }

private:
  /// The dimensions that are reduced, counted from the front.
  static Shape dimsOf(Operation *op) {
    int64_t rank = rankOf(op->getOperand(0));
    Shape dims;
    if (auto mean = dyn_cast<aten::MeanDimOp>(op))
      for (int64_t dim : mean.getDim().value_or(ArrayRef<int64_t>()))
        dims.push_back(dim < 0 ? dim + rank : dim);
    if (dims.empty())
      dims.assign(llvm::seq<int64_t>(rank).begin(), llvm::seq<int64_t>(rank).end());
    return dims;
  }
};

/// A loss of elements (`mse_loss` and its like) that is their mean.
template <typename OpTy> class ElementLossForm : public Form {
public:
  StringRef name() const override { return "mean loss of a sharded batch, as a sum"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    if (cast<OpTy>(op).getReduction().value_or(meanReduction) != meanReduction)
      return;
    shardElements(
        op, this, axis, broadcast(op->getOperands()),
        [](int64_t) { return AxisPlacement::partial(); }, strategies);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Value sum = b.make<OpTy>({}, dtypeOf(op->getResult(0)), operands, asSum(op, b));
    return b.finish(b.divScalar(
        sum, b.scalar(double(ShapedType::getNumElements(broadcast(op->getOperands()))))));
  }
};

/// Its gradient.
template <typename OpTy> class ElementLossBackwardForm : public Form {
public:
  StringRef name() const override { return "gradient of a mean loss of a sharded batch"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    std::optional<int64_t> reduction = cast<OpTy>(op).getReduction();
    if (reduction.value_or(meanReduction) != meanReduction || rankOf(op->getOperand(0)) != 0)
      return;
    shardElements(
        op, this, axis, shapeOf(op->getResult(0)),
        [](int64_t dim) { return AxisPlacement::shard(dim); }, strategies);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    SmallVector<Value> local(operands);
    local[0] = b.divScalar(local[0],
                           b.scalar(double(ShapedType::getNumElements(shapeOf(op->getResult(0))))));
    return b.finish(b.make<OpTy>(broadcast(local), dtypeOf(op->getResult(0)), local, asSum(op, b)));
  }
};

/// The mean over examples of margins between their classes, or its gradient.
template <typename OpTy, bool isBackward> class MarginLossForm : public Form {
public:
  StringRef name() const override {
    return isBackward ? "gradient of a mean loss of a sharded batch"
                      : "mean loss of a sharded batch, as a sum";
  }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto loss = cast<OpTy>(op);
    if (loss.getReduction().value_or(meanReduction) != meanReduction ||
        rankOf(loss.getSelf()) != 2 || !dividesEvenly(shapeOf(loss.getSelf())[0], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    for (StringRef name : {"self", "target"})
      strategy.operands[*operandNumber(op, name)] = AxisPlacement::shard(0);
    strategy.results[0] = isBackward ? AxisPlacement::shard(0) : AxisPlacement::partial();
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    auto examples = b.scalar(double(shapeOf(cast<OpTy>(op).getSelf())[0]));
    SmallVector<Value> local(operands);
    if (isBackward)
      local[0] = b.divScalar(local[0], examples);
    Shape shape;
    if (isBackward)
      shape = Shape(shapeOf(local[*operandNumber(op, "self")]));
    Value result = b.make<OpTy>(shape, dtypeOf(op->getResult(0)), local, asSum(op, b));
    return b.finish(isBackward ? result : b.divScalar(result, examples));
  }
};

} // namespace

template <typename OpTy, typename FormTy> static void add(FormTable &table) {
  static const FormTy form;
  table.add(OpTy::getOperationName(), &form);
}

template <typename OpTy> static void addLoss(FormTable &table) {
  add<OpTy, ElementLossForm<OpTy>>(table);
}

template <typename OpTy> static void addLossBackward(FormTable &table) {
  add<OpTy, ElementLossBackwardForm<OpTy>>(table);
}

void placement::addMeanForms(FormTable &table) {
  add<aten::MeanOp, MeanForm>(table);
  add<aten::MeanDimOp, MeanForm>(table);
  addLoss<aten::MseLossOp>(table);
  addLoss<aten::HuberLossOp>(table);
  addLoss<aten::SmoothL1LossOp>(table);
  addLoss<aten::SoftMarginLossOp>(table);
  addLoss<aten::BinaryCrossEntropyOp>(table);
  addLoss<aten::BinaryCrossEntropyWithLogitsOp>(table);
  add<aten::MultiMarginLossOp, MarginLossForm<aten::MultiMarginLossOp, false>>(table);
  add<aten::MultiMarginLossBackwardOp, MarginLossForm<aten::MultiMarginLossBackwardOp, true>>(
      table);
  addLossBackward<aten::MseLossBackwardOp>(table);
  addLossBackward<aten::HuberLossBackwardOp>(table);
  addLossBackward<aten::SmoothL1LossBackwardOp>(table);
  addLossBackward<aten::SoftMarginLossBackwardOp>(table);
  addLossBackward<aten::BinaryCrossEntropyBackwardOp>(table);
}
