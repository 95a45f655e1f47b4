//===- Normalization.cpp - derivatives of layer, group and batch normalization ===//

#include "dialects/aten/ops/Normalization.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

/// Which gradients of (input, weight, bias) are asked for, and the types of a kernel's results.
namespace {
struct Wanted {
  Wanted(Backward &b, Value input, Value weight, Value bias, ArrayRef<int64_t> shape)
      : mask{b.needs(input), b.needs(weight), b.needs(bias)} {
    MLIRContext *context = input.getContext();
    Type scaleType = RankedTensorType::get(shape, dtypeOf(weight ? weight : input));
    Type full[] = {RankedTensorType::get(shapeOf(input), dtypeOf(input)), scaleType,
                   bias ? Type(RankedTensorType::get(shape, dtypeOf(bias))) : scaleType};
    for (int i = 0; i < 3; ++i)
      types.push_back(mask[i] ? full[i] : Type(NoneType::get(context)));
  }
  bool mask[3];
  SmallVector<Type, 3> types;
};
} // namespace

static void give(Backward &b, Operation *kernel, Value input, Value weight, Value bias) {
  b.to(input, [&] { return kernel->getResult(0); });
  b.to(weight, [&] { return kernel->getResult(1); });
  b.to(bias, [&] { return kernel->getResult(2); });
}

static LogicalResult differentiateLayerNorm(NativeLayerNormOp op, Backward &b) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  Value input = op.getInput(), weight = op.getWeight(), bias = op.getBias();
  Wanted wanted(b, input, weight, bias, op.getNormalizedShape());
  SmallVector<Value> operands = {b.gradient(), input, op.getMean(), op.getRstd()};
  for (Value optional : {weight, bias})
    if (optional)
      operands.push_back(optional);
  Operation *kernel = b.create<NativeLayerNormBackwardOp>(
      wanted.types, operands,
      {b.integers("normalized_shape", op.getNormalizedShape()),
       b.booleans("output_mask", wanted.mask), b.segments({1, 1, 1, 1, bool(weight), bool(bias)})});
  give(b, kernel, input, weight, bias);
  return success();
}

static LogicalResult differentiateGroupNorm(NativeGroupNormOp op, Backward &b) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  Value input = op.getInput(), weight = op.getWeight(), bias = op.getBias();
  Wanted wanted(b, input, weight, bias, shapeOf(input)[1]);
  SmallVector<Value> operands = {b.gradient(), input, op.getMean(), op.getRstd()};
  if (weight)
    operands.push_back(weight);
  Operation *kernel = b.create<NativeGroupNormBackwardOp>(
      wanted.types, operands,
      {b.integer("N", op.getN()), b.integer("C", op.getC()), b.integer("HxW", op.getHxW()),
       b.integer("group", op.getGroup()), b.booleans("output_mask", wanted.mask)});
  give(b, kernel, input, weight, bias);
  return success();
}

/// `mean` and `var`: the running ones, `saved`: those of the batch.
template <typename OpTy>
static LogicalResult differentiateBatchNorm(OpTy op, Backward &b, Value mean, Value var,
                                            bool training) {
  if (failed(b.expectOnlyFirst()))
    return failure();
  Value input = op.getInput(), weight = op.getWeight(), bias = op.getBias();
  Wanted wanted(b, input, weight, bias, shapeOf(input)[1]);
  SmallVector<Value> operands = {b.gradient(), input};
  if (weight)
    operands.push_back(weight);
  llvm::append_values(operands, mean, var, op.getSaveMean(), op.getSaveInvstd());
  Operation *kernel = b.create<NativeBatchNormBackwardOp>(
      wanted.types, operands,
      {b.boolean("train", training), b.number("eps", op.getEps().convertToDouble()),
       b.booleans("output_mask", wanted.mask), b.segments({1, 1, bool(weight), 1, 1, 1, 1})});
  give(b, kernel, input, weight, bias);
  return success();
}

void cleave::autodiff::attachNormalizationRules(MLIRContext &context) {
  attach<NativeLayerNormOp, differentiateLayerNorm>(context);
  attach<NativeGroupNormOp, differentiateGroupNorm>(context);
  attach<NativeBatchNormLegitFunctionalOp, [](NativeBatchNormLegitFunctionalOp op, Backward &b) {
    return differentiateBatchNorm(op, b, op.getRunningMeanOut(), op.getRunningVarOut(),
                                  op.getTraining());
  }>(context);
  attach<NativeBatchNormLegitNoTrainingOp, [](NativeBatchNormLegitNoTrainingOp op, Backward &b) {
    return differentiateBatchNorm(op, b, op.getRunningMean(), op.getRunningVar(),
                                  /*training=*/false);
  }>(context);
}
