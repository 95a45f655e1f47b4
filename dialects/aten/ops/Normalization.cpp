//===- Normalization.cpp - layer and batch normalization ------------------===//

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

/// Results that hold statistics of `input`, in its dtype, or in f32 for the half-precision ones,
/// where kernels differ.
static LogicalResult expectStatistics(Operation *op, unsigned first, Value input,
                                      ArrayRef<int64_t> shape) {
  Type dtype = dtypeOf(input), f32 = Float32Type::get(op->getContext());
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

LogicalResult NativeBatchNormLegitFunctionalOp::verify() {
  // 1. and 2.
  FailureOr<int64_t> channels = verifyBatchNorm(*this, getInput(),
                                                {{"weight", getWeight()},
                                                 {"bias", getBias()},
                                                 {"running_mean", getRunningMean()},
                                                 {"running_var", getRunningVar()}});
  // 3.
  if (failed(channels) || failed(expectResultLike(*this, 0, getInput())))
    return failure();
  // 4.
  if (failed(expectStatistics(*this, 1, getInput(), {getTraining() ? *channels : 0})))
    return failure();
  // 5.
  if (failed(expectResultLike(*this, 3, getRunningMean())))
    return failure();
  return expectResultLike(*this, 4, getRunningVar());
}

LogicalResult NativeBatchNormLegitNoTrainingOp::verify() {
  // 1. and 2.
  FailureOr<int64_t> channels = verifyBatchNorm(*this, getInput(),
                                                {{"weight", getWeight()},
                                                 {"bias", getBias()},
                                                 {"running_mean", getRunningMean()},
                                                 {"running_var", getRunningVar()}});
  // 3.
  if (failed(channels) || failed(expectResultLike(*this, 0, getInput())))
    return failure();
  // 4.
  return expectStatistics(*this, 1, getInput(), {0});
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
