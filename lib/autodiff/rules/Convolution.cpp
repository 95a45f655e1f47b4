//===- Convolution.cpp - derivatives of convolution, pooling, upsampling ------===//

#include "dialects/aten/ops/Convolution.h"
#include "dialects/aten/ops/Pooling.h"
#include "dialects/aten/ops/Upsampling.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave::aten;
using namespace cleave::autodiff;

static void differentiateConvolution(ConvolutionOp op, Backward &b) {
  Value g = b.gradient(), input = op.getInput(), weight = op.getWeight(), bias = op.getBias();
  int64_t channels = shapeOf(g)[1];
  bool mask[] = {b.needs(input), b.needs(weight), b.needs(bias)};
  Type none = NoneType::get(op.getContext());
  auto plain = [](Value value) {
    return Type(RankedTensorType::get(shapeOf(value), dtypeOf(value)));
  };
  Type types[] = {mask[0] ? plain(input) : none, mask[1] ? plain(weight) : none,
                  mask[2] ? plain(bias) : none};
  Operation *kernel = b.create<ConvolutionBackwardOp>(
      types, {g, input, weight},
      {b.integers("bias_sizes", {bias ? channels : 0}), b.integers("stride", op.getStride()),
       b.integers("padding", op.getPadding()), b.integers("dilation", op.getDilation()),
       b.boolean("transposed", op.getTransposed()),
       b.integers("output_padding", op.getOutputPadding()), b.integer("groups", op.getGroups()),
       b.booleans("output_mask", mask)});
  b.to(input, [&] { return kernel->getResult(0); });
  b.to(weight, [&] { return kernel->getResult(1); });
  b.to(bias, [&] { return kernel->getResult(2); });
}

static void differentiateMaxPool(MaxPool2dWithIndicesOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    return b.makeLike<MaxPool2dWithIndicesBackwardOp>(
        self, {b.gradient(), self, op.getIndices()},
        {b.integers("kernel_size", op.getKernelSize()),
         b.integers("stride", op.getStride().value_or(ArrayRef<int64_t>{})),
         b.integers("padding", op.getPadding().value_or(ArrayRef<int64_t>{0})),
         b.integers("dilation", op.getDilation().value_or(ArrayRef<int64_t>{1})),
         b.boolean("ceil_mode", op.getCeilMode().value_or(false))});
  });
}

static void differentiateAvgPool(AvgPool2dOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<NamedAttribute> attributes = {
        b.integers("kernel_size", op.getKernelSize()),
        b.integers("stride", op.getStride().value_or(ArrayRef<int64_t>{})),
        b.integers("padding", op.getPadding().value_or(ArrayRef<int64_t>{0})),
        b.boolean("ceil_mode", op.getCeilMode().value_or(false)),
        b.boolean("count_include_pad", op.getCountIncludePad().value_or(true))};
    if (std::optional<int64_t> divisor = op.getDivisorOverride())
      attributes.push_back(b.integer("divisor_override", *divisor));
    return b.makeLike<AvgPool2dBackwardOp>(self, {b.gradient(), self}, attributes);
  });
}

/// The gradient takes the arguments of the op, and the shape of the gradient.
template <typename OpTy, typename Gradient>
static void differentiateUpsampling(OpTy op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<NamedAttribute> attributes = {b.integers("input_size", shapeOf(self))};
    for (const ArgumentSpec &argument : OpTy::argumentSpecs())
      if (Attribute given = op->getAttr(argument.name))
        attributes.push_back(b.named(argument.name, given));
    return b.makeLike<Gradient>(self, {b.gradient()}, attributes);
  });
}

/// What both directions between images and columns are told.
template <typename OpTy> static SmallVector<NamedAttribute> windowsOf(OpTy op, Backward &b) {
  return {b.integers("kernel_size", op.getKernelSize()), b.integers("dilation", op.getDilation()),
          b.integers("padding", op.getPadding()), b.integers("stride", op.getStride())};
}

static void differentiateIm2col(Im2colOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] {
    SmallVector<NamedAttribute> attributes = windowsOf(op, b);
    attributes.push_back(b.integers("output_size", shapeOf(self).take_back(2)));
    return b.makeLike<Col2imOp>(self, {b.gradient()}, attributes);
  });
}

static void differentiateCol2im(Col2imOp op, Backward &b) {
  Value self = op.getSelf();
  b.to(self, [&] { return b.makeLike<Im2colOp>(self, {b.gradient()}, windowsOf(op, b)); });
}

static void attachUpsampling(MLIRContext &context) {
#define UPSAMPLING(NAME)                                                                           \
  attach<Upsample##NAME##Op,                                                                       \
         differentiateUpsampling<Upsample##NAME##Op, Upsample##NAME##BackwardOp>>(context)
  UPSAMPLING(Nearest1d);
  UPSAMPLING(Nearest2d);
  UPSAMPLING(Nearest3d);
  UPSAMPLING(NearestExact1d);
  UPSAMPLING(NearestExact2d);
  UPSAMPLING(NearestExact3d);
  UPSAMPLING(Linear1d);
  UPSAMPLING(Bilinear2d);
  UPSAMPLING(Trilinear3d);
  UPSAMPLING(Bicubic2d);
  UPSAMPLING(Bilinear2dAa);
  UPSAMPLING(Bicubic2dAa);
#undef UPSAMPLING
}

void cleave::autodiff::attachConvolutionRules(MLIRContext &context) {
  attachUpsampling(context);
  attach<Im2colOp, differentiateIm2col>(context);
  attach<Col2imOp, differentiateCol2im>(context);
  attach<ConvolutionOp, differentiateConvolution>(context);
  attach<MaxPool2dWithIndicesOp, differentiateMaxPool>(context);
  attach<AvgPool2dOp, differentiateAvgPool>(context);
  attach<AdaptiveAvgPool2dOp, [](AdaptiveAvgPool2dOp op, Backward &b) {
    Value self = op.getSelf();
    b.to(self, [&] { return b.makeLike<AdaptiveAvgPool2dBackwardOp>(self, {b.gradient(), self}); });
  }>(context);
}
