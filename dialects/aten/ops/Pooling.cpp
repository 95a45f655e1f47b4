//===- Pooling.cpp - pooling over windows of images -----------------------===//

#include "dialects/aten/ops/Pooling.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Pooling.cpp.inc"

void cleave::aten::addPoolingOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Pooling.cpp.inc"
      >(dialect);
}

/// Constraint 1 of all.
static LogicalResult expectImages(Operation *op, Value self) {
  if (rankOf(self) == 3 || rankOf(self) == 4)
    return success();
  return op->emitOpError("expects `self` of 3 or 4 dimensions, found ") << self.getType();
}

namespace {
struct Windows {
  ArrayRef<int64_t> kernel, stride, padding, dilation;
  bool ceil;
};
} // namespace

/// The number of windows along a dimension of `size`, as PyTorch counts them.
static int64_t windowCount(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                           int64_t dilation, bool ceil) {
  int64_t span = size + 2 * padding - dilation * (kernel - 1) - 1;
  if (span < 0)
    return 0;
  int64_t count = (span + (ceil ? stride - 1 : 0)) / stride + 1;
  // The last window must start within the image or its left padding.
  if (ceil && (count - 1) * stride >= size + padding)
    --count;
  return count;
}

/// Constraints 1 and 2; gives the shape of the result.
static FailureOr<Shape> pooledShape(Operation *op, Value self, const Windows &windows) {
  // 1.
  if (failed(expectImages(op, self)))
    return failure();
  // 2.
  FailureOr<Shape> kernel = spreadList(op, windows.kernel, 2, "kernel_size");
  FailureOr<Shape> stride =
      windows.stride.empty() ? kernel : spreadList(op, windows.stride, 2, "stride");
  FailureOr<Shape> padding = spreadList(op, windows.padding, 2, "padding");
  FailureOr<Shape> dilation = spreadList(op, windows.dilation, 2, "dilation");
  if (failed(kernel) || failed(stride) || failed(padding) || failed(dilation))
    return failure();
  Shape shape(shapeOf(self));
  for (int i = 0; i < 2; ++i) {
    int64_t extent = (*kernel)[i], by = (*stride)[i], pad = (*padding)[i], spread = (*dilation)[i];
    if (extent < 1 || by < 1 || spread < 1 || pad < 0 || 2 * pad > (extent - 1) * spread + 1)
      return op->emitOpError("expects kernel, stride and dilation of at least 1 and a padding "
                             "between 0 and half of the kernel, found kernel ")
             << extent << ", stride " << by << ", dilation " << spread << " and padding " << pad;
    int64_t &size = shape[shape.size() - 2 + i];
    int64_t count = windowCount(size, extent, by, pad, spread, windows.ceil);
    if (count < 1)
      return op->emitOpError("has a window of ")
             << extent << " elements that does not fit an image of " << size << " with padding "
             << pad;
    size = count;
  }
  return shape;
}

LogicalResult MaxPool2dWithIndicesOp::verify() {
  // 1. and 2.
  static constexpr int64_t zero = 0, one = 1;
  FailureOr<Shape> shape =
      pooledShape(*this, getSelf(),
                  {getKernelSize(), getStride().value_or(ArrayRef<int64_t>()),
                   getPadding().value_or(ArrayRef(zero)), getDilation().value_or(ArrayRef(one)),
                   getCeilMode().value_or(false)});
  // 3.
  if (failed(shape) || failed(expectResult(*this, 0, *shape, dtypeOf(getSelf()))))
    return failure();
  // 4.
  return expectResult(*this, 1, *shape, IntegerType::get(getContext(), 64));
}

LogicalResult MaxPool2dWithIndicesBackwardOp::verify() {
  // 1. and 2.
  FailureOr<Shape> shape = pooledShape(
      *this, getSelf(), {getKernelSize(), getStride(), getPadding(), getDilation(), getCeilMode()});
  if (failed(shape))
    return failure();
  // 3.
  if (failed(expectShape(*this, "grad_output", getGradOutput(), *shape)) ||
      failed(expectShape(*this, "indices", getIndices(), *shape)))
    return failure();
  if (!dtypeOf(getIndices()).isSignlessInteger(64))
    return emitOpError("expects `indices` of dtype i64, found ") << getIndices().getType();
  // 4.
  return expectResultLike(*this, 0, getSelf());
}

/// Constraints 1 to 3 of a mean over windows; gives the shape of the result.
static FailureOr<Shape> averagedShape(Operation *op, Value self, const Windows &windows,
                                      std::optional<int64_t> divisor) {
  FailureOr<Shape> shape = pooledShape(op, self, windows);
  if (succeeded(shape) && divisor == 0)
    return op->emitOpError("expects a `divisor_override` other than 0");
  return shape;
}

LogicalResult AvgPool2dOp::verify() {
  // 1. to 3.
  static constexpr int64_t zero = 0, one = 1;
  FailureOr<Shape> shape =
      averagedShape(*this, getSelf(),
                    {getKernelSize(), getStride().value_or(ArrayRef<int64_t>()),
                     getPadding().value_or(ArrayRef(zero)), one, getCeilMode().value_or(false)},
                    getDivisorOverride());
  if (failed(shape))
    return failure();
  // 4.
  return expectResult(*this, 0, *shape, dtypeOf(getSelf()));
}

LogicalResult AvgPool2dBackwardOp::verify() {
  // 1. to 3.
  static constexpr int64_t one = 1;
  FailureOr<Shape> shape = averagedShape(
      *this, getSelf(), {getKernelSize(), getStride(), getPadding(), one, getCeilMode()},
      getDivisorOverride());
  if (failed(shape))
    return failure();
  // 4.
  if (failed(expectShape(*this, "grad_output", getGradOutput(), *shape)) ||
      failed(expectSameDType(*this, "grad_output", getGradOutput(), "self", getSelf())))
    return failure();
  // 5.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult AdaptiveAvgPool2dOp::verify() {
  // 1.
  if (failed(expectImages(*this, getSelf())))
    return failure();
  // 2.
  ArrayRef<int64_t> size = getOutputSize();
  if (size.size() != 2 || size[0] < 0 || size[1] < 0)
    return emitOpError("expects two non-negative sizes in `output_size`, found [") << size << "]";
  // 3.
  Shape shape(shapeOf(getSelf()).drop_back(2));
  shape.append(size.begin(), size.end());
  return expectResult(*this, 0, shape, dtypeOf(getSelf()));
}

LogicalResult AdaptiveAvgPool2dBackwardOp::verify() {
  // 1.
  if (failed(expectImages(*this, getSelf())))
    return failure();
  // 2.
  if (failed(expectRank(*this, "grad_output", getGradOutput(), rankOf(getSelf()))) ||
      failed(expectSameDType(*this, "grad_output", getGradOutput(), "self", getSelf())))
    return failure();
  if (shapeOf(getGradOutput()).drop_back(2) != shapeOf(getSelf()).drop_back(2))
    return emitOpError("expects `grad_output` to differ from `self` only in the last two sizes, "
                       "found ")
           << getGradOutput().getType() << " and " << getSelf().getType();
  // 3.
  return expectResultLike(*this, 0, getSelf());
}

/// The shape of the windows of `images` as columns, by constraint 2.
template <typename OpTy> static FailureOr<Shape> columnsOf(OpTy op, ArrayRef<int64_t> images) {
  int64_t count = 1, extent = 1;
  for (auto [name, list] :
       {std::pair("kernel_size", op.getKernelSize()), std::pair("dilation", op.getDilation()),
        std::pair("padding", op.getPadding()), std::pair("stride", op.getStride())})
    if (list.size() != 2)
      return op.emitOpError("expects 2 elements in `") << name << "`, found " << list.size();
  for (int i = 0; i < 2; ++i) {
    int64_t kernel = op.getKernelSize()[i], by = op.getStride()[i], pad = op.getPadding()[i],
            spread = op.getDilation()[i];
    if (kernel < 1 || by < 1 || spread < 1 || pad < 0)
      return op.emitOpError("expects kernel, stride and dilation of at least 1 and a padding of at "
                            "least 0, found kernel ")
             << kernel << ", stride " << by << ", dilation " << spread << " and padding " << pad;
    int64_t size = images[images.size() - 2 + i];
    int64_t windows = windowCount(size, kernel, by, pad, spread, /*ceil=*/false);
    if (windows < 1)
      return op.emitOpError("has a window of ")
             << kernel << " elements that does not fit an image of " << size << " with padding "
             << pad;
    count *= windows;
    extent *= kernel;
  }
  Shape shape(images.drop_back(3));
  shape.append({images[images.size() - 3] * extent, count});
  return shape;
}

LogicalResult Im2colOp::verify() {
  // 1.
  if (failed(expectImages(*this, getSelf())))
    return failure();
  // 2.
  FailureOr<Shape> columns = columnsOf(*this, shapeOf(getSelf()));
  if (failed(columns))
    return failure();
  // 3.
  return expectResult(*this, 0, *columns, dtypeOf(getSelf()));
}

LogicalResult Col2imOp::verify() {
  // 1.
  ArrayRef<int64_t> images = shapeOf(getResult());
  if (images.size() != 3 && images.size() != 4)
    return emitOpError("expects a result of 3 or 4 dimensions, found ") << getResult().getType();
  if (images.take_back(2) != getOutputSize())
    return emitOpError("expects a result with `output_size` as last two sizes, found ")
           << getResult().getType();
  if (failed(expectResult(*this, 0, images, dtypeOf(getSelf()))))
    return failure();
  // 2.
  FailureOr<Shape> columns = columnsOf(*this, images);
  if (failed(columns))
    return failure();
  // 3.
  return expectShape(*this, "self", getSelf(), *columns);
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// Images are the last two dimensions of every tensor; those before them correspond.
static void imageSharding(RuleBuilder &rule) {
  for (unsigned at = 0, e = rule.resultShape(0).size() - 2; at < e; ++at) {
    FactorId factor = rule.factor(rule.resultShape(0)[at]);
    for (unsigned i = 0; i < rule.get().operands.size(); ++i)
      rule.operandDim(i, at, factor);
    for (unsigned i = 0; i < rule.get().results.size(); ++i)
      rule.resultDim(i, at, factor);
  }
  rule.closeWhole("windows and positions are those of the whole image");
}

void MaxPool2dWithIndicesOp::describeSharding(RuleBuilder &rule) {
  imageSharding(rule);
}

void MaxPool2dWithIndicesBackwardOp::describeSharding(RuleBuilder &rule) {
  imageSharding(rule);
}

void AdaptiveAvgPool2dOp::describeSharding(RuleBuilder &rule) {
  imageSharding(rule);
}

void AdaptiveAvgPool2dBackwardOp::describeSharding(RuleBuilder &rule) {
  imageSharding(rule);
  rule.shapeOnly(*rule.operand("self"));
}

void AvgPool2dOp::describeSharding(RuleBuilder &rule) {
  imageSharding(rule);
}

void AvgPool2dBackwardOp::describeSharding(RuleBuilder &rule) {
  imageSharding(rule);
  rule.shapeOnly(*rule.operand("self"));
}

/// Batch and channels, which are the major part of the dimension of columns.
static void columnsSharding(RuleBuilder &rule, ArrayRef<int64_t> images, ArrayRef<int64_t> columns,
                            llvm::function_ref<void(unsigned, ArrayRef<FactorId>)> imageDim,
                            llvm::function_ref<void(unsigned, ArrayRef<FactorId>)> columnDim) {
  unsigned channel = images.size() - 3;
  if (channel == 1) {
    FactorId n = rule.factor(images[0]);
    imageDim(0, n);
    columnDim(0, n);
  }
  FactorId c = rule.factor(images[channel]);
  FactorId k = rule.whole(images[channel] ? columns[channel] / images[channel] : columns[channel],
                          "a window is one part of a column");
  imageDim(channel, c);
  columnDim(channel, {c, k});
  rule.closeWhole("windows and positions are those of the whole image");
}

void Im2colOp::describeSharding(RuleBuilder &rule) {
  columnsSharding(
      rule, rule.operandShape(0), rule.resultShape(0),
      [&](unsigned dim, ArrayRef<FactorId> factors) { rule.operandDim(0, dim, factors); },
      [&](unsigned dim, ArrayRef<FactorId> factors) { rule.resultDim(0, dim, factors); });
}

void Col2imOp::describeSharding(RuleBuilder &rule) {
  columnsSharding(
      rule, rule.resultShape(0), rule.operandShape(0),
      [&](unsigned dim, ArrayRef<FactorId> factors) { rule.resultDim(0, dim, factors); },
      [&](unsigned dim, ArrayRef<FactorId> factors) { rule.operandDim(0, dim, factors); });
}
