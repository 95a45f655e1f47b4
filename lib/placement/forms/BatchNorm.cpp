//===- BatchNorm.cpp - statistics of a sharded batch ----------------------===//
//
// In training each channel is normalized by mean and variance of the whole batch. A rank's mean and
// sum of squared distances from it say all that the others need (Chan, Golub, LeVeque 1979): one
// gathering of two numbers a channel, without the cancellation that sums of squares suffer.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/ops/Reduction.h"
#include "lib/placement/forms/Forms.h"
#include "lib/placement/forms/LocalBuilder.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;

/// All dimensions but the channels.
static Shape imageDims(Value input) {
  Shape dims = {0};
  for (int64_t dim = 2; dim < rankOf(input); ++dim)
    dims.push_back(dim);
  return dims;
}

/// The elements of a channel.
static int64_t elements(Value input) {
  int64_t count = 1;
  for (int64_t dim : imageDims(input))
    count *= shapeOf(input)[dim];
  return count;
}

/// A value for each channel, to be combined with images.
static Value besideImages(LocalBuilder &b, Value perChannel, Value input) {
  Shape shape(rankOf(input), 1);
  shape[1] = shapeOf(perChannel)[0];
  return b.view(perChannel, shape);
}

namespace {

class BatchNormForm : public Form {
public:
  StringRef name() const override { return "batch norm with synchronised statistics"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto norm = cast<aten::NativeBatchNormLegitFunctionalOp>(op);
    if (!norm.getTraining() || !dividesEvenly(shapeOf(norm.getInput())[0], axis))
      return;
    AxisStrategy &strategy = strategies.emplace_back(replicatedStrategy(op, this));
    strategy.operands[0] = strategy.results[0] = AxisPlacement::shard(0);
    strategy.bytes = allGatherBytes(2 * bytesOf(norm.getSaveMean()) * axis.size, axis);
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy>,
                    FormBuilder &form) const override {
    auto norm = cast<aten::NativeBatchNormLegitFunctionalOp>(op);
    LocalBuilder b(op, operands, form);
    Value input = operands[0];
    Axes axes = b.axesOf(input, 0);
    int64_t here = elements(input), count = here * axes.ranks;

    Value x = b.asVarying(b.widened(input), axes);
    Shape dims = imageDims(input), channels = {shapeOf(input)[1]};
    Value mean = b.make<aten::MeanDimOp>(channels, dtypeOf(x), x, b.integers("dim", dims));
    Value variance = b.make<aten::VarCorrectionOp>(
        channels, dtypeOf(x), x,
        {b.integers("dim", dims), b.named("correction", b.scalar(int64_t(0)))});
    Value all = b.allGather(b.unsqueeze(b.stack({mean, variance}, 0), 0), 0, axes);
    auto part = [&](int64_t at) { return b.squeeze(b.slice(all, 1, at, at + 1), 1); };
    auto average = [&](Value perRank) {
      return b.make<aten::MeanDimOp>(channels, dtypeOf(perRank), perRank, b.integers("dim", 0));
    };
    Value means = part(0);
    Value wholeMean = average(means);
    // All ranks have as many elements: within ranks and between them.
    Value distance = b.sub(means, wholeMean);
    Value wholeVariance = b.add(average(part(1)), average(b.mul(distance, distance)));
    Value invstd = b.unary<aten::RsqrtOp>(
        b.addScalar(wholeVariance, b.scalar(norm.getEps().convertToDouble())));

    Type statistics = dtypeOf(norm.getSaveMean());
    // The kernel that takes statistics has no gradient with respect to them.
    Value output = form.holdsGradients ? normalize(b, norm, operands, wholeMean, wholeVariance)
                                       : normalizeByOps(b, norm, operands, wholeMean, invstd);
    wholeMean = b.withoutGradient(wholeMean);
    wholeVariance = b.withoutGradient(wholeVariance);
    invstd = b.withoutGradient(invstd);
    return b.finish({output, b.toType(wholeMean, statistics), b.toType(invstd, statistics),
                     moved(b, norm, operands[runningMean(norm)], wholeMean, 1.0),
                     moved(b, norm, operands[runningMean(norm) + 1], wholeVariance,
                           double(count) / double(count - 1))});
  }

private:
  static unsigned runningMean(aten::NativeBatchNormLegitFunctionalOp norm) {
    return *operandNumber(norm, "running_mean");
  }

  /// The op that normalizes by given statistics, on this rank's part.
  static Value normalize(LocalBuilder &b, aten::NativeBatchNormLegitFunctionalOp norm,
                         ValueRange operands, Value mean, Value variance) {
    Value input = operands[0];
    SmallVector<Value> inputs(operands.take_front(runningMean(norm)));
    // The kernel takes statistics in the dtype of the parameters.
    Type dtype = dtypeOf(norm.getRunningMean());
    inputs.push_back(b.toType(mean, dtype));
    inputs.push_back(b.toType(variance, dtype));
    Type image = RankedTensorType::get(shapeOf(input), dtypeOf(input));
    Type none = RankedTensorType::get({0}, dtypeOf(norm.getSaveMean()));
    Operation *local = b.create<aten::NativeBatchNormLegitNoTrainingOp>(
        {image, none, none}, inputs,
        {b.named("momentum", norm.getMomentumAttr()), b.named("eps", norm.getEpsAttr()),
         b.segments({1, norm.getWeight() ? 1 : 0, norm.getBias() ? 1 : 0, 1, 1})});
    return local->getResult(0);
  }

  /// The same in ops that gradients flow through, to the statistics too.
  static Value normalizeByOps(LocalBuilder &b, aten::NativeBatchNormLegitFunctionalOp norm,
                              ValueRange operands, Value mean, Value invstd) {
    Value input = operands[0];
    auto beside = [&](Value perChannel) {
      return besideImages(b, b.toType(perChannel, dtypeOf(mean)), input);
    };
    Value output = b.mul(b.sub(b.widened(input), beside(mean)), beside(invstd));
    if (norm.getWeight())
      output = b.mul(output, beside(operands[*operandNumber(norm, "weight")]));
    if (norm.getBias())
      output = b.add(output, beside(operands[*operandNumber(norm, "bias")]));
    return b.toType(output, dtypeOf(input));
  }

  /// A running statistic, moved towards the batch's times `correction`.
  static Value moved(LocalBuilder &b, aten::NativeBatchNormLegitFunctionalOp norm, Value running,
                     Value batch, double correction) {
    double momentum = norm.getMomentum().convertToDouble();
    Value kept = b.mulScalar(running, b.scalar(1.0 - momentum));
    return b.add(kept,
                 b.toType(b.mulScalar(batch, b.scalar(momentum * correction)), dtypeOf(running)));
  }
};

class BatchNormBackwardForm : public Form {
public:
  StringRef name() const override { return "gradient of batch norm with synchronised statistics"; }
  bool takesSeveralAxes() const override { return true; }

  void getStrategies(Operation *op, MeshAxis axis,
                     SmallVectorImpl<AxisStrategy> &strategies) const override {
    auto backward = cast<aten::NativeBatchNormBackwardOp>(op);
    if (!backward.getTrain() || !dividesEvenly(shapeOf(backward.getInput())[0], axis))
      return;
    AxisStrategy strategy = replicatedStrategy(op, this);
    strategy.operands[*operandNumber(op, "grad_out")] = AxisPlacement::shard(0);
    strategy.operands[*operandNumber(op, "input")] = AxisPlacement::shard(0);
    strategy.results[0] = AxisPlacement::shard(0);
    strategy.bytes = 2 * allReduceBytes(bytesOf(backward.getSaveMean()), axis);
    // The parameters' gradients are reduced on the way, and may be had so or as terms.
    for (AxisPlacement placement : {AxisPlacement::partial(), AxisPlacement::replicate()}) {
      for (unsigned i : {1, 2})
        if (backward.getOutputMask()[i])
          strategy.results[i] = placement;
      strategies.push_back(strategy);
    }
  }

  LocalValues build(Operation *op, ValueRange operands, ArrayRef<AxisStrategy> strategies,
                    FormBuilder &form) const override {
    auto backward = cast<aten::NativeBatchNormBackwardOp>(op);
    LocalBuilder b(op, operands, form);
    auto operand = [&](StringRef name) { return operands[*operandNumber(op, name)]; };
    Value input = operand("input"), gradient = b.widened(operand("grad_out"));
    Axes axes = b.axesOf(input, 0);
    Shape dims = imageDims(input);
    double count = double(elements(input) * axes.ranks);
    auto beside = [&](Value perChannel) { return besideImages(b, perChannel, input); };

    Value mean = beside(b.widened(operand("save_mean")));
    Value invstd = beside(b.widened(operand("save_invstd")));
    Value normal = b.mul(b.sub(b.widened(input), mean), invstd);
    // Terms of the gradients of bias and weight; their sums are also what each input's gradient
    // loses to mean and variance.
    Value biasTerms = b.sum(gradient, dims, /*keepDim=*/false);
    Value weightTerms = b.sum(b.mul(gradient, normal), dims, /*keepDim=*/false);
    Value sums = b.allReduce(b.stack({biasTerms, weightTerms}, 0), axes);
    auto sum = [&](int64_t at) { return b.squeeze(b.slice(sums, 0, at, at + 1), 0); };
    Value gradBias = sum(0), gradWeight = sum(1);

    SmallVector<Value> results(3);
    if (backward.getOutputMask()[0]) {
      auto share = [&](Value total) { return b.divScalar(beside(total), b.scalar(count)); };
      Value rest = b.sub(b.sub(gradient, share(gradBias)), b.mul(normal, share(gradWeight)));
      Value scale = invstd;
      if (backward.getWeight())
        scale = b.mul(scale, beside(b.widened(operand("weight"))));
      results[0] = b.toType(b.mul(rest, scale), dtypeOf(op->getResult(0)));
    }
    auto parameter = [&](unsigned result, Value terms, Value total) {
      if (backward.getOutputMask()[result])
        results[result] =
            b.toType(ofStrategies(b, strategies, form, result, terms, total),
                     cast<RankedTensorType>(op->getResult(result).getType()).getElementType());
    };
    parameter(1, weightTerms, gradWeight);
    parameter(2, biasTerms, gradBias);
    return b.finish(results);
  }

private:
  /// A pending sum along the axes whose strategies want one, reduced along the others.
  static Value ofStrategies(LocalBuilder &b, ArrayRef<AxisStrategy> strategies, FormBuilder &form,
                            unsigned result, Value terms, Value total) {
    Axes reduced;
    for (auto [axis, strategy] : llvm::zip_equal(form.axes, strategies))
      if (!strategy.results[result].isPartial())
        reduced.names.push_back(axis.name);
    return reduced.names.size() == strategies.size() ? total : b.allReduce(terms, reduced);
  }
};

} // namespace

void placement::addBatchNormForms(FormTable &table) {
  static const BatchNormForm forward;
  static const BatchNormBackwardForm backward;
  table.add(aten::NativeBatchNormLegitFunctionalOp::getOperationName(), &forward);
  table.add(aten::NativeBatchNormBackwardOp::getOperationName(), &backward);
}
