//===- Normalization.cpp - layer, group and batch normalization -----------===//

#include "dialects/aten/ops/Normalization.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Normalization.cpp.inc"

void cleave::aten::addNormalizationOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Normalization.cpp.inc"
      >(dialect);
}

/// Results that hold statistics, in the dtype of `like`, or in f32 for the half-precision ones,
/// where kernels differ.
static LogicalResult expectStatistics(Operation *op, unsigned first, Value like,
                                      ArrayRef<int64_t> shape) {
  Type dtype = dtypeOf(like), f32 = Float32Type::get(op->getContext());
  for (unsigned i : {first, first + 1}) {
    auto found = cast<RankedTensorType>(op->getResult(i).getType());
    bool inF32 = dtype.getIntOrFloatBitWidth() == 16 && found.getElementType() == f32;
    if (failed(expectResult(op, i, shape, inF32 ? f32 : dtype)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Layer normalization
//===----------------------------------------------------------------------===//

/// Constraints 1 and 2 of both; gives the shape of the statistics.
static FailureOr<Shape> verifyLayerNorm(Operation *op, Value input, ArrayRef<int64_t> normalized,
                                        Value weight, Value bias) {
  // 1.
  if (failed(expectFloating(op, "input", input)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(input);
  if (normalized.empty() || normalized.size() > shape.size() ||
      shape.take_back(normalized.size()) != normalized)
    return op->emitOpError("expects the shape of `input` to end with `normalized_shape`, found ")
           << input.getType() << " and [" << normalized << "]";
  // 2.
  if (failed(expectShape(op, "weight", weight, normalized)) ||
      failed(expectShape(op, "bias", bias, normalized)))
    return failure();
  Shape statistics(shape.drop_back(normalized.size()));
  statistics.append(normalized.size(), 1);
  return statistics;
}

LogicalResult NativeLayerNormOp::verify() {
  // 1. and 2.
  FailureOr<Shape> statistics =
      verifyLayerNorm(*this, getInput(), getNormalizedShape(), getWeight(), getBias());
  // 3.
  if (failed(statistics) || failed(expectResultLike(*this, 0, getInput())))
    return failure();
  // 4.
  return expectStatistics(*this, 1, getInput(), *statistics);
}

LogicalResult NativeLayerNormBackwardOp::verify() {
  // 1. and 2.
  FailureOr<Shape> statistics =
      verifyLayerNorm(*this, getInput(), getNormalizedShape(), getWeight(), getBias());
  if (failed(statistics))
    return failure();
  // 3. and 4.
  if (failed(expectShape(*this, "grad_out", getGradOut(), shapeOf(getInput()))) ||
      failed(expectShape(*this, "mean", getMean(), *statistics)) ||
      failed(expectShape(*this, "rstd", getRstd(), *statistics)))
    return failure();
  // 5. and 6.
  ArrayRef<bool> mask = getOutputMask();
  auto like = [&](Value parameter) { return dtypeOf(parameter ? parameter : getInput()); };
  if (failed(expectMaskLength(*this, mask)) ||
      failed(expectMaskedResult(*this, 0, mask, shapeOf(getInput()), dtypeOf(getInput()))) ||
      failed(expectMaskedResult(*this, 1, mask, getNormalizedShape(), like(getWeight()))) ||
      failed(expectMaskedResult(*this, 2, mask, getNormalizedShape(), like(getBias()))))
    return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Group normalization
//===----------------------------------------------------------------------===//

/// Constraints 1 to 3 of both.
template <typename OpTy> static LogicalResult verifyGroupNorm(OpTy op, Value bias) {
  Value input = op.getInput();
  int64_t examples = op.getN(), channels = op.getC(), group = op.getGroup();
  // 1.
  if (failed(expectFloating(op, "input", input)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(input);
  int64_t count = 1;
  for (int64_t size : shape.drop_front(std::min<size_t>(shape.size(), 2)))
    count *= size;
  if (shape.size() < 2 || shape[0] != examples || shape[1] != channels || count != op.getHxW())
    return op.emitOpError("expects `input` of ")
           << examples << " examples with " << channels << " channels of " << op.getHxW()
           << " elements, found " << input.getType();
  // 2.
  if (group < 1 || channels % group != 0)
    return op.emitOpError("expects a `group` of at least 1 that divides the ")
           << channels << " channels, found " << group;
  // 3.
  if (failed(expectShape(op, "weight", op.getWeight(), {channels})))
    return failure();
  return expectShape(op, "bias", bias, {channels});
}

LogicalResult NativeGroupNormOp::verify() {
  // 1. to 3.
  if (failed(verifyGroupNorm(*this, getBias())))
    return failure();
  // 4.
  if (failed(expectResultLike(*this, 0, getInput())))
    return failure();
  // 5.
  return expectStatistics(*this, 1, getInput(), {int64_t(getN()), int64_t(getGroup())});
}

LogicalResult NativeGroupNormBackwardOp::verify() {
  // 1. to 3.
  if (failed(verifyGroupNorm(*this, {})))
    return failure();
  // 4.
  int64_t statistics[] = {int64_t(getN()), int64_t(getGroup())};
  if (failed(expectShape(*this, "grad_out", getGradOut(), shapeOf(getInput()))) ||
      failed(expectShape(*this, "mean", getMean(), statistics)) ||
      failed(expectShape(*this, "rstd", getRstd(), statistics)))
    return failure();
  // 5. and 6.
  ArrayRef<bool> mask = getOutputMask();
  int64_t channels = getC();
  Type dtype = dtypeOf(getWeight() ? getWeight() : getInput());
  if (failed(expectMaskLength(*this, mask)) ||
      failed(expectMaskedResult(*this, 0, mask, shapeOf(getInput()), dtypeOf(getInput()))) ||
      failed(expectMaskedResult(*this, 1, mask, {channels}, dtype)))
    return failure();
  return expectMaskedResult(*this, 2, mask, {channels}, dtype);
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

namespace {
struct NamedValue {
  StringRef name;
  Value value;
};
} // namespace

/// Constraints 1 and 2 of all: gives the number of channels, which the operands `perChannel` have.
static FailureOr<int64_t> verifyBatchNorm(Operation *op, Value input,
                                          ArrayRef<NamedValue> perChannel) {
  // 1.
  if (failed(expectFloating(op, "input", input)))
    return failure();
  if (rankOf(input) < 2)
    return op->emitOpError("expects `input` of at least two dimensions, found ") << input.getType();
  // 2.
  int64_t channels = shapeOf(input)[1];
  for (const NamedValue &operand : perChannel)
    if (failed(expectShape(op, operand.name, operand.value, {channels})))
      return failure();
  return channels;
}

/// Constraints 1 to 3 of the ops that normalize: gives the number of channels.
template <typename OpTy> static FailureOr<int64_t> verifyNormalized(OpTy op) {
  // 1. and 2.
  FailureOr<int64_t> channels = verifyBatchNorm(op, op.getInput(),
                                                {{"weight", op.getWeight()},
                                                 {"bias", op.getBias()},
                                                 {"running_mean", op.getRunningMean()},
                                                 {"running_var", op.getRunningVar()}});
  // 3.
  if (failed(channels) || failed(expectResultLike(op, 0, op.getInput())))
    return failure();
  return channels;
}

LogicalResult NativeBatchNormLegitFunctionalOp::verify() {
  // 1. to 3.
  FailureOr<int64_t> channels = verifyNormalized(*this);
  // 4.
  if (failed(channels) ||
      failed(expectStatistics(*this, 1, getRunningMean(), {getTraining() ? *channels : 0})))
    return failure();
  // 5.
  if (failed(expectResultLike(*this, 3, getRunningMean())))
    return failure();
  return expectResultLike(*this, 4, getRunningVar());
}

LogicalResult NativeBatchNormLegitNoTrainingOp::verify() {
  // 1. to 3.
  if (failed(verifyNormalized(*this)))
    return failure();
  // 4.
  return expectStatistics(*this, 1, getRunningMean(), {0});
}

LogicalResult NativeBatchNormBackwardOp::verify() {
  // 1. and 2.
  FailureOr<int64_t> channels = verifyBatchNorm(*this, getInput(),
                                                {{"weight", getWeight()},
                                                 {"running_mean", getRunningMean()},
                                                 {"running_var", getRunningVar()}});
  if (failed(channels))
    return failure();
  if (getTrain() && (failed(expectShape(*this, "save_mean", getSaveMean(), {*channels})) ||
                     failed(expectShape(*this, "save_invstd", getSaveInvstd(), {*channels}))))
    return failure();
  // 3.
  if (failed(expectShape(*this, "grad_out", getGradOut(), shapeOf(getInput()))))
    return failure();
  // 4. and 5.
  ArrayRef<bool> mask = getOutputMask();
  Type dtype = dtypeOf(getWeight() ? getWeight() : getInput());
  if (failed(expectMaskLength(*this, mask)) ||
      failed(expectMaskedResult(*this, 0, mask, shapeOf(getInput()), dtypeOf(getInput()))) ||
      failed(expectMaskedResult(*this, 1, mask, {*channels}, dtype)))
    return failure();
  return expectMaskedResult(*this, 2, mask, {*channels}, dtype);
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Dimension `at` of every tensor of the rank of operand 0 that has its size there; the batch of a
/// layer norm. Results without it are sums over it.
static void batchDim(RuleBuilder &rule, unsigned at) {
  size_t rank = rule.operandShape(0).size();
  FactorId factor = rule.factor(rule.operandShape(0)[at], FactorReduction::Sum);
  for (auto [i, tensor] : llvm::enumerate(rule.get().operands))
    if (tensor.size() == rank)
      rule.operandDim(i, at, factor);
  for (auto [i, tensor] : llvm::enumerate(rule.get().results))
    if (tensor.size() == rank)
      rule.resultDim(i, at, factor);
}

static void layerNormSharding(RuleBuilder &rule, size_t normalized) {
  size_t batch = rule.operandShape(0).size() - normalized;
  for (size_t at = 0; at < batch; ++at)
    batchDim(rule, at);
  rule.closeWhole("mean and variance are those over all of it");
}

void NativeLayerNormOp::describeSharding(RuleBuilder &rule) {
  layerNormSharding(rule, getNormalizedShape().size());
}

void NativeLayerNormBackwardOp::describeSharding(RuleBuilder &rule) {
  layerNormSharding(rule, getNormalizedShape().size());
}

/// Examples are dimension 0 of images and of statistics; parameters' gradients are sums over them.
static void groupNormSharding(RuleBuilder &rule, int64_t examples) {
  FactorId n = rule.factor(examples, FactorReduction::Sum);
  for (auto [i, tensor] : llvm::enumerate(rule.get().operands))
    if (tensor.size() >= 2)
      rule.operandDim(i, 0, n);
  for (auto [i, tensor] : llvm::enumerate(rule.get().results))
    if (tensor.size() >= 2)
      rule.resultDim(i, 0, n);
  rule.sizeIsFactor("N", n);
  rule.closeWhole("mean and variance are those over all of a group, whose size follows from `C`, "
                  "`HxW` and `group`");
}

void NativeGroupNormOp::describeSharding(RuleBuilder &rule) {
  groupNormSharding(rule, getN());
}

void NativeGroupNormBackwardOp::describeSharding(RuleBuilder &rule) {
  groupNormSharding(rule, getN());
}

/// Channels are dimension 1 of images and the only one of statistics and parameters.
static void channelFactor(RuleBuilder &rule) {
  FactorId c = rule.factor(rule.operandShape(0)[1]);
  auto place = [&](auto &tensors, auto shape, auto set) {
    for (unsigned i = 0; i < tensors.size(); ++i)
      if (tensors[i].size() >= 2)
        set(i, 1, c);
      else if (tensors[i].size() == 1 && shape(i)[0] == rule.operandShape(0)[1])
        set(i, 0, c);
  };
  place(
      rule.get().operands, [&](unsigned i) { return rule.operandShape(i); },
      [&](unsigned i, unsigned at, FactorId id) { rule.operandDim(i, at, id); });
  place(
      rule.get().results, [&](unsigned i) { return rule.resultShape(i); },
      [&](unsigned i, unsigned at, FactorId id) { rule.resultDim(i, at, id); });
}

/// All dimensions but the channels: whole in training, else independent of each other. `reduction`
/// is for parameters' gradients; results in `unaffected` are not sums.
static void imageFactors(RuleBuilder &rule, bool training, ArrayRef<unsigned> unaffected) {
  for (unsigned at = 0; at < rule.operandShape(0).size(); ++at) {
    if (at == 1)
      continue;
    batchDim(rule, at);
    FactorId factor = rule.get().factors.size() - 1;
    for (unsigned result : unaffected)
      rule.unaffected(factor, result);
    if (training)
      rule.makeWhole(factor, "mean and variance are those of the whole batch");
  }
}

void NativeBatchNormLegitFunctionalOp::describeSharding(RuleBuilder &rule) {
  channelFactor(rule);
  imageFactors(rule, getTraining(), {1, 2, 3, 4});
}

void NativeBatchNormLegitNoTrainingOp::describeSharding(RuleBuilder &rule) {
  channelFactor(rule);
  imageFactors(rule, false, {1, 2});
}

void NativeBatchNormBackwardOp::describeSharding(RuleBuilder &rule) {
  channelFactor(rule);
  imageFactors(rule, getTrain(), {});
}
