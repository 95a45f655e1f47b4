//===- Conversions.cpp - derivatives of convert, reinterpret and the fakes ----===//

#include "lib/autodiff/DistBuilder.h"
#include "lib/autodiff/Rules.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::autodiff;

/// Keeps the meaning, so that the gradient's conversion back does; what every rank had and each
/// used in its own way (I to R, V or S) has to be put together again by communication.
static LogicalResult differentiateConvert(dist::ConvertOp op, Backward &b) {
  RankedTensorType type = b.gradientType(op.getInput());
  if (!type)
    return failure();
  dist::AxisPlacement source = op.getSource(), destination = op.getDestination();
  Value g = b.gradient();
  DistBuilder axis(b, dist::getPlacement(op.getResult().getType()).getMesh(),
                   ArrayAttr::get(op.getContext(), op.getAxis()));
  if (source.isInvariant() && destination.isReplicate()) {
    b.to(op.getInput(), axis.allReduce(dist::Reduction::Sum, g, type));
    return success();
  }
  if (source.isInvariant() && !destination.isPartial()) {
    b.to(op.getInput(), axis.allGather(g, *op.getSlicedDim(), type));
    return success();
  }
  SmallVector<NamedAttribute, 1> attributes;
  if (std::optional<int64_t> dim = op.getDim())
    attributes.push_back(b.integer("dim", *dim));
  b.to(op.getInput(), b.create<dist::ConvertOp>(Type(type), g, attributes)->getResult(0));
  return success();
}

/// Keeps the bits, back as well.
static LogicalResult differentiateReinterpret(dist::ReinterpretOp op, Backward &b) {
  RankedTensorType type = b.gradientType(op.getInput());
  if (!type)
    return failure();
  b.to(op.getInput(), b.create<dist::ReinterpretOp>(Type(type), b.gradient())->getResult(0));
  return success();
}

/// The fakes come in pairs, each the other's derivative.
template <typename Pair, typename OpTy>
static LogicalResult differentiateFake(OpTy op, Backward &b) {
  RankedTensorType type = b.gradientType(op.getInput());
  if (!type)
    return failure();
  SmallVector<NamedAttribute, 1> attributes;
  if constexpr (requires { op.getDim(); })
    attributes.push_back(b.integer("dim", op.getDim()));
  b.to(op.getInput(),
       DistBuilder(b, op).make(Pair::getOperationName(), b.gradient(), type, attributes));
  return success();
}

void cleave::autodiff::attachDistConversionRules(MLIRContext &context) {
  using namespace dist;
  attachForComplex<ConvertOp, differentiateConvert>(context);
  attachForComplex<ReinterpretOp, differentiateReinterpret>(context);
  attachForComplex<FakeBroadcastOp, differentiateFake<FakeReduceOp, FakeBroadcastOp>>(context);
  attachForComplex<FakeReduceOp, differentiateFake<FakeBroadcastOp, FakeReduceOp>>(context);
  attachForComplex<FakeScatterOp, differentiateFake<FakeGatherOp, FakeScatterOp>>(context);
  attachForComplex<FakeGatherOp, differentiateFake<FakeScatterOp, FakeGatherOp>>(context);
}
