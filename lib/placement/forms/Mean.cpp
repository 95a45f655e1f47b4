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

/// The number of elements of the operands' common shape.
static int64_t elements(Value a, Value b) {
  FailureOr<Shape> shape = aten::broadcastShapes(shapeOf(a), shapeOf(b));
  int64_t product = 1;
  for (int64_t size : *shape)
    product *= size;
  return product;
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

class MseForm : public Form {
public:
  StringRef name() const override { return "mean squared error of a sharded batch, as a sum"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto loss = cast<aten::MseLossOp>(op);
    if (loss.getReduction().value_or(meanReduction) != meanReduction ||
        shapeOf(loss.getSelf()) != shapeOf(loss.getTarget()))
      return;
    for (int64_t dim = 0; dim < rankOf(loss.getSelf()); ++dim) {
      if (!dividesEvenly(shapeOf(loss.getSelf())[dim], axis))
        continue;
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      strategy.operands.assign(2, AxisPlacement::shard(dim));
      strategy.results[0] = AxisPlacement::partial();
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Value sum = b.make<aten::MseLossOp>({}, dtypeOf(op->getResult(0)), operands,
                                        b.integer("reduction", sumReduction));
    int64_t count = elements(op->getOperand(0), op->getOperand(1));
    return b.finish(b.divScalar(sum, b.scalar(double(count))));
  }
};

class MseBackwardForm : public Form {
public:
  StringRef name() const override { return "gradient of a mean squared error of a sharded batch"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto backward = cast<aten::MseLossBackwardOp>(op);
    if (backward.getReduction() != meanReduction || rankOf(backward.getGradOutput()) != 0 ||
        shapeOf(backward.getSelf()) != shapeOf(backward.getTarget()))
      return;
    for (int64_t dim = 0; dim < rankOf(backward.getSelf()); ++dim) {
      if (!dividesEvenly(shapeOf(backward.getSelf())[dim], axis))
        continue;
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      strategy.operands[1] = strategy.operands[2] = AxisPlacement::shard(dim);
      strategy.results[0] = AxisPlacement::shard(dim);
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    int64_t count = elements(op->getOperand(1), op->getOperand(2));
    Value gradient = b.divScalar(operands[0], b.scalar(double(count)));
    return b.finish(b.makeLike<aten::MseLossBackwardOp>(
        operands[1], {gradient, operands[1], operands[2]}, b.integer("reduction", sumReduction)));
  }
};

} // namespace

void placement::addMeanForms(FormTable &table) {
  static const MeanForm mean;
  static const MseForm mse;
  static const MseBackwardForm mseBackward;
  table.add(aten::MeanOp::getOperationName(), &mean);
  table.add(aten::MeanDimOp::getOperationName(), &mean);
  table.add(aten::MseLossOp::getOperationName(), &mse);
  table.add(aten::MseLossBackwardOp::getOperationName(), &mseBackward);
}
