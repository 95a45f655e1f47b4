//===- Complex.cpp - complex numbers and Fourier transforms -----------------===//

#include "dialects/aten/ops/Complex.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Complex.cpp.inc"

void cleave::aten::addComplexOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Complex.cpp.inc"
      >(dialect);
}

/// The operand `name` must hold what complex numbers are made of.
static LogicalResult expectParts(Operation *op, StringRef name, Value value) {
  if (dtypeOf(value).isF32() || dtypeOf(value).isF64())
    return success();
  return op->emitOpError("expects `")
         << name << "` to have dtype f32 or f64, found " << value.getType();
}

//===----------------------------------------------------------------------===//
// Complex numbers as pairs of reals
//===----------------------------------------------------------------------===//

LogicalResult ViewAsComplexOp::verify() {
  // 1.
  if (failed(expectParts(*this, "self", getSelf())))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(getSelf());
  if (shape.empty() || shape.back() != 2)
    return emitOpError("expects a last dimension of size 2, found ") << getSelf().getType();
  // 2.
  return expectResult(*this, 0, shape.drop_back(), toComplex(dtypeOf(getSelf())));
}

LogicalResult ViewAsRealOp::verify() {
  // 1.
  if (failed(expectComplex(*this, "self", getSelf())))
    return failure();
  // 2.
  Shape shape(shapeOf(getSelf()));
  shape.push_back(2);
  return expectResult(*this, 0, shape, toReal(dtypeOf(getSelf())));
}

static LogicalResult verifyFromParts(Operation *op, StringRef first, StringRef second) {
  Value parts[] = {op->getOperand(0), op->getOperand(1)};
  // 1.
  if (failed(expectParts(op, first, parts[0])) ||
      failed(expectSameDType(op, second, parts[1], first, parts[0])))
    return failure();
  // 2.
  FailureOr<Shape> shape = broadcastShapes(op, parts);
  if (failed(shape))
    return failure();
  return expectResult(op, 0, *shape, toComplex(dtypeOf(parts[0])));
}

LogicalResult ComplexOp::verify() {
  return verifyFromParts(*this, "real", "imag");
}

LogicalResult PolarOp::verify() {
  return verifyFromParts(*this, "abs", "angle");
}

LogicalResult ConjPhysicalOp::verify() {
  // 1.
  if (failed(expectComplex(*this, "self", getSelf())))
    return failure();
  // 2.
  return expectResultLike(*this, 0, getSelf());
}

/// `self` if it was made by `Inverse` from a value of the result's type.
template <typename Inverse> static OpFoldResult foldInverse(Operation *op) {
  auto inverse = op->getOperand(0).getDefiningOp<Inverse>();
  if (inverse && inverse.getSelf().getType() == op->getResult(0).getType())
    return inverse.getSelf();
  return {};
}

OpFoldResult ViewAsComplexOp::fold(FoldAdaptor) {
  return foldInverse<ViewAsRealOp>(*this);
}

OpFoldResult ViewAsRealOp::fold(FoldAdaptor) {
  return foldInverse<ViewAsComplexOp>(*this);
}

OpFoldResult ConjPhysicalOp::fold(FoldAdaptor) {
  return foldInverse<ConjPhysicalOp>(*this);
}

//===----------------------------------------------------------------------===//
// Fourier transforms
//===----------------------------------------------------------------------===//

/// Dimensions and normalization, which all transforms have; the dimensions counted from the front.
static FailureOr<Shape> verifyFourier(Operation *op, Value self, ArrayRef<int64_t> dim,
                                      int64_t normalization, bool needsDim) {
  FailureOr<Shape> dims = wrapDims(op, dim, rankOf(self), "dim");
  if (failed(dims))
    return failure();
  if (ArrayRef<int64_t>(*dims) != dim)
    return op->emitOpError("expects dimensions counted from the front in `dim`, found [")
           << dim << "]";
  if (needsDim && dims->empty())
    return op->emitOpError("expects at least one dimension in `dim`");
  for (int64_t at : *dims)
    if (rankOf(self) == 0 || shapeOf(self)[at] == 0)
      return op->emitOpError("expects elements to transform, found ") << self.getType();
  if (normalization < 0 || normalization > 2)
    return op->emitOpError(
               "expects `normalization` 0 (none), 1 (by the root of n) or 2 (by n), found ")
           << normalization;
  return dims;
}

LogicalResult FftC2cOp::verify() {
  // 1.
  if (failed(expectComplex(*this, "self", getSelf())))
    return failure();
  // 2. and 3.
  if (failed(verifyFourier(*this, getSelf(), getDim(), getNormalization(), /*needsDim=*/false)))
    return failure();
  // 4.
  return expectResultLike(*this, 0, getSelf());
}

LogicalResult FftR2cOp::verify() {
  // 1.
  if (failed(expectParts(*this, "self", getSelf())))
    return failure();
  // 2. and 3.
  FailureOr<Shape> dims =
      verifyFourier(*this, getSelf(), getDim(), getNormalization(), /*needsDim=*/true);
  if (failed(dims))
    return failure();
  // 4.
  Shape shape(shapeOf(getSelf()));
  if (getOnesided())
    shape[dims->back()] = shape[dims->back()] / 2 + 1;
  return expectResult(*this, 0, shape, toComplex(dtypeOf(getSelf())));
}

LogicalResult FftC2rOp::verify() {
  // 1.
  if (failed(expectComplex(*this, "self", getSelf())))
    return failure();
  // 2. and 3.
  FailureOr<Shape> dims =
      verifyFourier(*this, getSelf(), getDim(), getNormalization(), /*needsDim=*/true);
  if (failed(dims))
    return failure();
  // 4.
  Shape shape(shapeOf(getSelf()));
  int64_t &last = shape[dims->back()], size = getLastDimSize();
  if (size < 1)
    return emitOpError("expects `last_dim_size` of at least 1, found ") << size;
  if (last != size / 2 + 1)
    return emitOpError("expects size ")
           << size / 2 + 1 << " in the last of `dim`, found " << getSelf().getType();
  // 5.
  last = size;
  return expectResult(*this, 0, shape, toReal(dtypeOf(getSelf())));
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

/// All dimensions but the last one of the side that has pairs.
static void pairSharding(RuleBuilder &rule, int64_t rank) {
  for (int64_t at = 0; at < rank; ++at)
    rule.keep(0, at, 0, at);
  rule.closeWhole("it is the two parts of a number");
}

void ViewAsComplexOp::describeSharding(RuleBuilder &rule) {
  pairSharding(rule, rankOf(getResult()));
}

void ViewAsRealOp::describeSharding(RuleBuilder &rule) {
  pairSharding(rule, rankOf(getSelf()));
}

/// The dimensions that are not transformed.
static void fourierSharding(RuleBuilder &rule, ArrayRef<int64_t> dim, int64_t rank) {
  llvm::SmallDenseSet<int64_t> transformed;
  for (int64_t at : dim)
    transformed.insert(wrapped(at, rank));
  for (int64_t at = 0; at < rank; ++at)
    if (!transformed.contains(at))
      rule.keep(0, at, 0, at);
  rule.closeWhole("each element of the transform is a sum over all of it");
}

void FftC2cOp::describeSharding(RuleBuilder &rule) {
  fourierSharding(rule, getDim(), rankOf(getSelf()));
}

void FftR2cOp::describeSharding(RuleBuilder &rule) {
  fourierSharding(rule, getDim(), rankOf(getSelf()));
}

void FftC2rOp::describeSharding(RuleBuilder &rule) {
  fourierSharding(rule, getDim(), rankOf(getSelf()));
}
