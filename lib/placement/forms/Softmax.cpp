//===- Softmax.cpp - softmax over a sharded dimension ---------------------===//
//
// The largest element and the sum of exponentials are reduced over the ranks; a number each, where
// gathering would move all elements.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Softmax.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

/// `dim`, counted from the front; none where the tensor has no dimension.
template <typename OpTy> std::optional<int64_t> dimOf(OpTy op) {
  int64_t rank = rankOf(op->getOperand(0)), dim = op.getDim();
  return rank == 0 ? std::nullopt : std::optional(dim < 0 ? dim + rank : dim);
}

/// All operands and the result are sharded in the op's dimension.
template <typename OpTy> class SoftmaxForm : public Form {
public:
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    std::optional<int64_t> dim = dimOf(cast<OpTy>(op));
    Value first = op->getOperand(0);
    if (!dim || !dividesEvenly(shapeOf(first)[*dim], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    for (AxisPlacement &placement : strategy.operands)
      placement = AxisPlacement::shard(*dim);
    strategy.results[0] = AxisPlacement::shard(*dim);
    strategy.bytes = reductions() * allReduceBytes(bytesOf(first) / shapeOf(first)[*dim], axis);
  }

protected:
  /// How many reductions the form makes, of a number for each slice.
  virtual int64_t reductions() const = 0;
};

template <typename OpTy> class ForwardForm : public SoftmaxForm<OpTy> {
public:
  StringRef name() const override { return "softmax over a sharded dimension"; }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    int64_t dim = *dimOf(cast<OpTy>(op));
    Axes axes = b.axesOf(operands[0], dim);
    Value x = b.widened(operands[0]);
    Value largest = b.allReduce(b.amax(x, dim), axes, dist::Reduction::Max);
    Value shifted = b.sub(x, largest);
    Value exponentials = b.unary<aten::ExpOp>(shifted);
    Value sum = b.allReduce(b.sum(exponentials, dim, /*keepDim=*/true), axes);
    Value result;
    if constexpr (std::is_same_v<OpTy, aten::LogSoftmaxOp>)
      result = b.sub(shifted, b.unary<aten::LogOp>(sum));
    else
      result = b.div(exponentials, sum);
    if constexpr (std::is_same_v<OpTy, aten::SafeSoftmaxOp>) {
      Value none =
          b.compare<aten::EqScalarOp>(largest, b.scalar(-std::numeric_limits<double>::infinity()));
      result = b.maskedFill(result, none, b.scalar(0.0));
    }
    return b.finish(b.toType(result, dtypeOf(op->getResult(0))));
  }

protected:
  int64_t reductions() const override { return 2; }
};

template <typename OpTy> class BackwardForm : public SoftmaxForm<OpTy> {
public:
  StringRef name() const override { return "gradient of a softmax over a sharded dimension"; }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    int64_t dim = *dimOf(cast<OpTy>(op));
    Axes axes = b.axesOf(operands[0], dim);
    Value gradient = b.widened(operands[0]), output = b.widened(operands[1]);
    auto total = [&](Value terms) {
      return b.allReduce(b.sum(terms, dim, /*keepDim=*/true), axes);
    };
    Value result;
    if constexpr (std::is_same_v<OpTy, aten::LogSoftmaxBackwardDataOp>) {
      result = b.sub(gradient, b.mul(b.unary<aten::ExpOp>(output), total(gradient)));
    } else {
      Value terms = b.mul(gradient, output);
      result = b.sub(terms, b.mul(output, total(terms)));
    }
    return b.finish(b.toType(result, dtypeOf(op->getResult(0))));
  }

protected:
  int64_t reductions() const override { return 1; }
};

} // namespace

template <typename FormTy, typename OpTy> static void add(FormTable &table) {
  static const FormTy form;
  table.add(OpTy::getOperationName(), &form);
}

void placement::addSoftmaxForms(FormTable &table) {
  add<ForwardForm<aten::SoftmaxOp>, aten::SoftmaxOp>(table);
  add<ForwardForm<aten::LogSoftmaxOp>, aten::LogSoftmaxOp>(table);
  add<ForwardForm<aten::SafeSoftmaxOp>, aten::SafeSoftmaxOp>(table);
  add<BackwardForm<aten::SoftmaxBackwardDataOp>, aten::SoftmaxBackwardDataOp>(table);
  add<BackwardForm<aten::LogSoftmaxBackwardDataOp>, aten::LogSoftmaxBackwardDataOp>(table);
}
