//===- Softmax.cpp - softmax and logsumexp over a sharded dimension -------===//
//
// The largest element and the sum of exponentials are reduced over the ranks; a number each, where
// gathering would move all elements.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Softmax.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

#include <limits>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

/// `dim`, counted from the front; none if the tensor has no dimension.
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
    Value largest = b.largestOfAll(b.amax(x, dim), axes);
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

/// The operand is sharded in a dimension that is reduced.
class LogsumexpForm : public Form {
public:
  StringRef name() const override { return "logsumexp over a sharded dimension"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    Value self = op->getOperand(0);
    for (int64_t dim : dimsOf(op)) {
      if (!dividesEvenly(shapeOf(self)[dim], axis))
        continue;
      AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
      strategy.operands[0] = AxisPlacement::shard(dim);
      strategy.bytes = 2 * allReduceBytes(bytesOf(op->getResult(0)), axis);
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    LocalBuilder b(op, operands, form);
    Shape dims = dimsOf(op);
    Axes axes;
    Value x = b.widened(operands[0]);
    for (int64_t dim : dims)
      axes = axes + b.axesOf(operands[0], dim);
    Value largest =
        b.make<aten::AmaxOp>(aten::reduceShape(shapeOf(x), dims, /*keepDims=*/true), dtypeOf(x), x,
                             {b.integers("dim", dims), b.boolean("keepdim", true)});
    largest = b.largestOfAll(largest, axes);
    // As the kernel does: where all elements are -inf, or one is inf, these differences are NaN.
    Value infinite = b.compare<aten::EqScalarOp>(b.unary<aten::AbsOp>(largest),
                                                 b.scalar(std::numeric_limits<double>::infinity()));
    largest = b.maskedFill(largest, infinite, b.scalar(0.0));
    Value exponentials = b.unary<aten::ExpOp>(b.sub(x, largest));
    Value sum = b.allReduce(b.sum(exponentials, dims, /*keepDim=*/true), axes);
    Value result = b.add(b.unary<aten::LogOp>(sum), largest);
    if (!cast<aten::LogsumexpOp>(op).getKeepdim().value_or(false)) {
      llvm::sort(dims, std::greater<int64_t>());
      for (int64_t dim : dims)
        result = b.squeeze(result, dim);
    }
    return b.finish(b.toType(result, dtypeOf(op->getResult(0))));
  }

private:
  /// The dimensions that are reduced, counted from the front; none of what is not a floating-point
  /// tensor, which is converted first.
  static Shape dimsOf(Operation *op) {
    auto logsumexp = cast<aten::LogsumexpOp>(op);
    int64_t rank = rankOf(logsumexp.getSelf());
    Shape dims;
    if (!isa<FloatType>(dtypeOf(logsumexp.getSelf())))
      return dims;
    for (int64_t dim : logsumexp.getDim())
      dims.push_back(dim < 0 ? dim + rank : dim);
    if (dims.empty())
      llvm::append_range(dims, llvm::seq<int64_t>(rank));
    return dims;
  }
};

} // namespace

template <typename FormTy, typename OpTy> static void add(FormTable &table) {
  static const FormTy form;
  table.add(OpTy::getOperationName(), &form);
}

void placement::addSoftmaxForms(FormTable &table) {
  add<LogsumexpForm, aten::LogsumexpOp>(table);
  add<ForwardForm<aten::SoftmaxOp>, aten::SoftmaxOp>(table);
  add<ForwardForm<aten::LogSoftmaxOp>, aten::LogSoftmaxOp>(table);
  add<ForwardForm<aten::SafeSoftmaxOp>, aten::SafeSoftmaxOp>(table);
  add<BackwardForm<aten::SoftmaxBackwardDataOp>, aten::SoftmaxBackwardDataOp>(table);
  add<BackwardForm<aten::LogSoftmaxBackwardDataOp>, aten::LogSoftmaxBackwardDataOp>(table);
}
