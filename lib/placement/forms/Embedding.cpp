//===- Embedding.cpp - embeddings whose rows are sharded ------------------===//
//
// Each rank looks up what falls into its rows and takes zeros for the rest: terms of a sum. The
// gradient of its rows needs nothing of the others.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Indexing.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

namespace {

class EmbeddingForm : public Form {
public:
  StringRef name() const override { return "vocabulary-sharded embedding"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    if (!dividesEvenly(shapeOf(op->getOperand(0))[0], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[0] = AxisPlacement::shard(0);
    strategy.results[0] = AxisPlacement::partial();
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto embedding = cast<aten::EmbeddingOp>(op);
    LocalBuilder b(op, operands, form);
    if (!form.holdsGradients && embedding.getScaleGradByFreq().value_or(false))
      return op->emitOpError(
          "has scale_grad_by_freq, which a table sharded by rows cannot keep for a "
          "gradient that is yet to be made; run --autodiff before --partition");
    Value weight = operands[0], indices = operands[1];
    Axes axes = b.axesOf(weight, 0);
    int64_t rows = shapeOf(weight)[0];
    Value local = b.localIndices(indices, rows, axes);
    Value outside = b.outside(local, rows);
    Value safe = b.maskedFill(local, outside, b.scalar(int64_t(0)));
    Shape shape(shapeOf(indices));
    shape.push_back(shapeOf(weight)[1]);
    Value found = b.make<aten::EmbeddingOp>(shape, dtypeOf(weight), {weight, safe});
    // The padding's row takes no gradient. Its number is another one on each rank.
    int64_t padding = embedding.getPaddingIdx().value_or(-1);
    if (padding >= 0 && !form.holdsGradients) {
      Value isPadding = b.compare<aten::EqScalarOp>(indices, b.scalar(padding));
      found = b.where(b.unsqueeze(isPadding, -1), b.withoutGradient(found), found);
    }
    Value terms = b.maskedFill(found, b.unsqueeze(outside, -1), b.scalar(0.0));
    return b.finish(b.asPartial(terms, axes));
  }
};

class EmbeddingBackwardForm : public Form {
public:
  StringRef name() const override { return "gradient of a vocabulary-sharded embedding"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto backward = cast<aten::EmbeddingDenseBackwardOp>(op);
    if (!dividesEvenly(backward.getNumWeights(), axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.results[0] = AxisPlacement::shard(0);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy> strategies,
                    FormBuilder &form) const override {
    auto backward = cast<aten::EmbeddingDenseBackwardOp>(op);
    LocalBuilder b(op, operands, form);
    Value gradient = operands[0], indices = operands[1];
    Axes axes = b.axesOf(strategies, 0, 0);
    int64_t rows = int64_t(backward.getNumWeights()) / axes.ranks;
    int64_t padding = backward.getPaddingIdx();
    // What is none of this rank's rows counts for one row more, which the kernel skips.
    Value local = b.localIndices(indices, rows, axes);
    Value outside = b.outside(local, rows);
    if (padding >= 0)
      outside = b.compare<aten::LogicalOrOp>(
          outside, b.compare<aten::EqScalarOp>(indices, b.scalar(padding)));
    Value skipped = b.maskedFill(local, outside, b.scalar(rows));
    Value all = b.make<aten::EmbeddingDenseBackwardOp>(
        {rows + 1, shapeOf(gradient).back()}, dtypeOf(gradient), {gradient, skipped},
        {b.integer("num_weights", rows + 1), b.integer("padding_idx", rows),
         b.boolean("scale_grad_by_freq", backward.getScaleGradByFreq())});
    return b.finish(b.asShard(b.slice(all, 0, 0, rows), 0, axes));
  }
};

} // namespace

void placement::addEmbeddingForms(FormTable &table) {
  static const EmbeddingForm forward;
  static const EmbeddingBackwardForm backward;
  table.add(aten::EmbeddingOp::getOperationName(), &forward);
  table.add(aten::EmbeddingDenseBackwardOp::getOperationName(), &backward);
}
