//===- Convolution.cpp - convolution and its gradients --------------------===//

#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Convolution.cpp.inc"

void cleave::aten::addConvolutionOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Convolution.cpp.inc"
      >(dialect);
}

/// The shape of the result, from operands and attributes that forward and backward share;
/// `verifyBias` checks between the constraints on channels and on sizes.
template <typename ConvOp>
static FailureOr<Shape> outputShape(ConvOp op,
                                    llvm::function_ref<LogicalResult(int64_t)> verifyBias) {
  Value inputValue = op.getInput(), weightValue = op.getWeight();
  ArrayRef<int64_t> input = shapeOf(inputValue), weight = shapeOf(weightValue);
  // 1.
  if (input.size() < 3 || input.size() > 5 || weight.size() != input.size())
    return op.emitOpError("expects `input` and `weight` of 3 to 5 dimensions each, found ")
           << inputValue.getType() << " and " << weightValue.getType();
  for (Value operand : op->getOperands())
    if (dtypeOf(operand) != dtypeOf(inputValue))
      return op.emitOpError("expects operands of the same dtype, found ")
             << operand.getType() << " and " << inputValue.getType();
  // 2.
  int64_t groups = op.getGroups(), channels = input[1];
  if (groups < 1)
    return op.emitOpError("expects `groups` of at least 1, found ") << groups;
  bool transposed = op.getTransposed();
  int64_t expectedChannels = transposed ? weight[0] : weight[1] * groups;
  int64_t outputs = transposed ? weight[1] * groups : weight[0];
  if (channels != expectedChannels || channels % groups != 0 || outputs % groups != 0)
    return op.emitOpError("expects `weight` for ") << channels << " input channels in " << groups
                                                   << " groups, found " << weightValue.getType();
  if (failed(verifyBias(outputs)))
    return failure();
  // Sizes
  int64_t dims = input.size() - 2;
  FailureOr<Shape> stride = spreadList(op, op.getStride(), dims, "stride");
  FailureOr<Shape> padding = spreadList(op, op.getPadding(), dims, "padding");
  FailureOr<Shape> dilation = spreadList(op, op.getDilation(), dims, "dilation");
  FailureOr<Shape> extra = spreadList(op, op.getOutputPadding(), dims, "output_padding");
  if (failed(stride) || failed(padding) || failed(dilation) || failed(extra))
    return failure();
  Shape shape = {input[0], outputs};
  for (int64_t i = 0; i < dims; ++i) {
    int64_t by = (*stride)[i], pad = (*padding)[i], spread = (*dilation)[i], add = (*extra)[i];
    if (by < 1 || spread < 1 || pad < 0 || add < 0)
      return op.emitOpError(
                 "expects strides and dilations of at least 1 and non-negative paddings, "
                 "found stride ")
             << by << ", dilation " << spread << ", padding " << pad << " and output padding "
             << add;
    int64_t kernel = spread * (weight[2 + i] - 1) + 1, size = input[2 + i];
    int64_t result = transposed                ? (size - 1) * by - 2 * pad + kernel + add
                     : size + 2 * pad < kernel ? 0
                                               : (size + 2 * pad - kernel) / by + 1;
    if (result < 1)
      return op.emitOpError("has a kernel of ")
             << kernel << " elements that does not fit an input of " << size << " with padding "
             << pad;
    shape.push_back(result);
  }
  return shape;
}

LogicalResult ConvolutionOp::verify() {
  // 1. to 4.
  FailureOr<Shape> shape = outputShape(
      *this, [&](int64_t outputs) { return expectShape(*this, "bias", getBias(), {outputs}); });
  if (failed(shape))
    return failure();
  // 5.
  return expectResult(*this, 0, *shape, dtypeOf(getInput()));
}

LogicalResult ConvolutionBackwardOp::verify() {
  // 1. to 3.
  FailureOr<Shape> shape = outputShape(*this, [](int64_t) { return success(); });
  if (failed(shape))
    return failure();
  // 4.
  if (failed(expectShape(*this, "grad_output", getGradOutput(), *shape)))
    return failure();
  // 5. and 6.
  ArrayRef<bool> mask = getOutputMask();
  Type dtype = dtypeOf(getInput());
  if (failed(expectMaskLength(*this, mask)) ||
      failed(expectMaskedResult(*this, 0, mask, shapeOf(getInput()), dtype)) ||
      failed(expectMaskedResult(*this, 1, mask, shapeOf(getWeight()), dtype)))
    return failure();
  return expectMaskedResult(*this, 2, mask, {(*shape)[1]}, dtype);
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

namespace {

/// The factors that a convolution and its backward share: channels are groups (g) of input (c) or
/// output (o) channels.
struct ConvolutionFactors {
  FactorId n, g, c, o;

  ConvolutionFactors(RuleBuilder &rule, ArrayRef<int64_t> input, int64_t outputs, int64_t groups)
      : n(rule.factor(input[0], FactorReduction::Sum)),
        g(rule.factor(groups, FactorReduction::Sum)),
        c(rule.factor(input[1] / groups, FactorReduction::Sum)),
        o(rule.factor(outputs / groups, FactorReduction::Sum)) {
    rule.sizeIsFactor("groups", g);
  }

  // One group stands there too: it may be what is left of several.
  DimFactors inputs() const { return {g, c}; }
  DimFactors outputs() const { return {g, o}; }
};

} // namespace

static const char *windowReason = "windows overlap";

void ConvolutionOp::describeSharding(RuleBuilder &rule) {
  ConvolutionFactors f(rule, shapeOf(getInput()), shapeOf(getResult())[1], getGroups());
  rule.operandDim(0, 0, f.n);
  rule.operandDim(0, 1, f.inputs());
  rule.operandDim(1, 0, getTransposed() ? f.inputs() : f.outputs());
  rule.operandDim(1, 1, getTransposed() ? f.o : f.c);
  if (getBias()) {
    rule.operandDim(2, 0, f.outputs());
    rule.addend(f.c, 2);
  }
  rule.resultDim(0, 0, f.n);
  rule.resultDim(0, 1, f.outputs());
  rule.closeWhole(windowReason);
}

void ConvolutionBackwardOp::describeSharding(RuleBuilder &rule) {
  ConvolutionFactors f(rule, shapeOf(getInput()), shapeOf(getGradOutput())[1], getGroups());
  DimFactors inputs = f.inputs(), outputs = f.outputs();
  rule.operandDim(0, 0, f.n);
  rule.operandDim(0, 1, outputs);
  rule.operandDim(1, 0, f.n);
  rule.operandDim(1, 1, inputs);
  rule.operandDim(2, 0, getTransposed() ? inputs : outputs);
  rule.operandDim(2, 1, getTransposed() ? f.o : f.c);
  ArrayRef<bool> mask = getOutputMask();
  if (mask[0]) {
    rule.resultDim(0, 0, f.n);
    rule.resultDim(0, 1, inputs);
  }
  if (mask[1]) {
    rule.resultDim(1, 0, getTransposed() ? inputs : outputs);
    rule.resultDim(1, 1, getTransposed() ? f.o : f.c);
  }
  if (mask[2]) {
    rule.resultDim(2, 0, outputs);
    rule.unaffected(f.c, 2);
    rule.sizeIsResultShape("bias_sizes", 2);
  }
  rule.closeWhole(windowReason);
}
