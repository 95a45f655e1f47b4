//===- Reduction.cpp - sums, means, extrema and norms ---------------------===//

#include "dialects/aten/ops/Reduction.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Reduction.cpp.inc"

void cleave::aten::addReductionOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Reduction.cpp.inc"
      >(dialect);
}

/// `self` reduced over `dims` (all where absent or empty) to `dtype`.
static LogicalResult verifyReduction(Operation *op, Value self,
                                     std::optional<ArrayRef<int64_t>> dims,
                                     std::optional<bool> keepDims, Type dtype) {
  FailureOr<Shape> wrapped = wrapDims(op, dims.value_or(ArrayRef<int64_t>()), rankOf(self));
  if (failed(wrapped))
    return failure();
  return expectResult(op, 0, reduceShape(shapeOf(self), *wrapped, keepDims.value_or(false)), dtype);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// The dtype of a sum, or a mean, whose dtype must be a floating-point one.
static FailureOr<Type> sumDType(Operation *op, Value self, std::optional<Type> given, bool isMean) {
  Type dtype = given.value_or(isMean ? dtypeOf(self) : sumType(dtypeOf(self)));
  if (failed(expectDType(op, dtype)))
    return failure();
  if (isMean && !isDifferentiable(dtype))
    return op->emitOpError("expects a floating-point or complex dtype, found ") << dtype;
  return dtype;
}

static LogicalResult verifySum(Operation *op, Value self, std::optional<ArrayRef<int64_t>> dims,
                               std::optional<bool> keepDims, std::optional<Type> given,
                               bool isMean = false) {
  // 1.
  FailureOr<Type> dtype = sumDType(op, self, given, isMean);
  if (failed(dtype))
    return failure();
  // 2. and 3.
  return verifyReduction(op, self, dims, keepDims, *dtype);
}

LogicalResult SumOp::verify() {
  return verifySum(*this, getSelf(), {}, {}, getDtype());
}

LogicalResult SumDimIntListOp::verify() {
  return verifySum(*this, getSelf(), getDim(), getKeepdim(), getDtype());
}

LogicalResult MeanOp::verify() {
  return verifySum(*this, getSelf(), {}, {}, getDtype(), /*isMean=*/true);
}

LogicalResult MeanDimOp::verify() {
  return verifySum(*this, getSelf(), getDim(), getKeepdim(), getDtype(), /*isMean=*/true);
}

LogicalResult CumsumOp::verify() {
  // 1.
  FailureOr<Type> dtype = sumDType(*this, getSelf(), getDtype(), /*isMean=*/false);
  // 2.
  if (failed(dtype) || failed(wrapDim(*this, getDim(), rankOf(getSelf()))))
    return failure();
  // 3.
  return expectResult(*this, 0, shapeOf(getSelf()), *dtype);
}

//===----------------------------------------------------------------------===//
// Spread
//===----------------------------------------------------------------------===//

LogicalResult VarCorrectionOp::verify() {
  // 1.
  if (failed(expectFloating(*this, "self", getSelf())))
    return failure();
  // 2. and 3.
  return verifyReduction(*this, getSelf(), getDim(), getKeepdim(), dtypeOf(getSelf()));
}

LogicalResult LinalgVectorNormOp::verify() {
  // 1.
  Type dtype = getDtype().value_or(dtypeOf(getSelf()));
  bool isOfComplex = isComplex(dtypeOf(getSelf()));
  if (!isOfComplex && failed(expectFloating(*this, "self", getSelf())))
    return failure();
  if (isOfComplex ? !isComplex(dtype) : !isFloating(dtype))
    return emitOpError("expects a ")
           << (isOfComplex ? "complex" : "floating-point") << " `dtype`, found " << dtype;
  // 2. and 3. Norms are real.
  return verifyReduction(*this, getSelf(), getDim(), getKeepdim(), toReal(dtype));
}

LogicalResult LogsumexpOp::verify() {
  return verifyReduction(*this, getSelf(), getDim(), getKeepdim(), toFloating(dtypeOf(getSelf())));
}

//===----------------------------------------------------------------------===//
// Extrema and truth
//===----------------------------------------------------------------------===//

LogicalResult AmaxOp::verify() {
  return verifyReduction(*this, getSelf(), getDim(), getKeepdim(), dtypeOf(getSelf()));
}

LogicalResult AminOp::verify() {
  return verifyReduction(*this, getSelf(), getDim(), getKeepdim(), dtypeOf(getSelf()));
}

static LogicalResult verifyTruth(Operation *op, Value self) {
  Type dtype = dtypeOf(self);
  if (!dtype.isUnsignedInteger(8))
    dtype = IntegerType::get(op->getContext(), 1);
  return expectResult(op, 0, {}, dtype);
}

LogicalResult AnyOp::verify() {
  return verifyTruth(*this, getSelf());
}

LogicalResult AllOp::verify() {
  return verifyTruth(*this, getSelf());
}

LogicalResult ArgmaxOp::verify() {
  Shape dims;
  if (std::optional<int64_t> dim = getDim())
    dims.push_back(*dim);
  return verifyReduction(*this, getSelf(), ArrayRef<int64_t>(dims), getKeepdim(),
                         IntegerType::get(getContext(), 64));
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> dimsOf(std::optional<ArrayRef<int64_t>> dims) {
  return dims.value_or(ArrayRef<int64_t>());
}

void SumOp::describeSharding(RuleBuilder &rule) {
  rule.reduce({}, false, FactorReduction::Sum);
}

void SumDimIntListOp::describeSharding(RuleBuilder &rule) {
  rule.reduce(dimsOf(getDim()), getKeepdim().value_or(false), FactorReduction::Sum);
}

void MeanOp::describeSharding(RuleBuilder &rule) {
  rule.reduce({}, false, FactorReduction::Avg);
}

void MeanDimOp::describeSharding(RuleBuilder &rule) {
  rule.reduce(dimsOf(getDim()), getKeepdim().value_or(false), FactorReduction::Avg);
}

void CumsumOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), "each element is the sum of all before it");
}

void VarCorrectionOp::describeSharding(RuleBuilder &rule) {
  rule.reduce(dimsOf(getDim()), getKeepdim().value_or(false), std::nullopt,
              "the variance is that about the mean of all elements");
}

void LinalgVectorNormOp::describeSharding(RuleBuilder &rule) {
  // Sums of absolute values and extrema are reductions of the parts' own; roots of sums are not.
  double order = 2;
  if (auto real = dyn_cast_or_null<FloatAttr>(getOrdAttr()))
    order = real.getValueAsDouble();
  else if (auto integer = dyn_cast_or_null<IntegerAttr>(getOrdAttr()))
    order = double(integer.getInt());
  std::optional<FactorReduction> reduction;
  if (order == 0 || order == 1)
    reduction = FactorReduction::Sum;
  else if (std::isinf(order))
    reduction = order > 0 ? FactorReduction::Max : FactorReduction::Min;
  rule.reduce(dimsOf(getDim()), getKeepdim().value_or(false), reduction,
              "the root is that of the sum over all elements");
}

void LogsumexpOp::describeSharding(RuleBuilder &rule) {
  rule.reduce(getDim(), getKeepdim().value_or(false), std::nullopt,
              "the logarithm is that of the sum over all elements");
}

void AmaxOp::describeSharding(RuleBuilder &rule) {
  rule.reduce(dimsOf(getDim()), getKeepdim().value_or(false), FactorReduction::Max);
}

void AminOp::describeSharding(RuleBuilder &rule) {
  rule.reduce(dimsOf(getDim()), getKeepdim().value_or(false), FactorReduction::Min);
}

void AnyOp::describeSharding(RuleBuilder &rule) {
  rule.reduce({}, false, FactorReduction::Max);
}

void AllOp::describeSharding(RuleBuilder &rule) {
  rule.reduce({}, false, FactorReduction::Min);
}

void ArgmaxOp::describeSharding(RuleBuilder &rule) {
  static const char *reason = "a position counts all elements before it";
  if (std::optional<int64_t> dim = getDim())
    rule.reduce({*dim}, getKeepdim().value_or(false), std::nullopt, reason);
  else
    rule.reduce({}, getKeepdim().value_or(false), std::nullopt, reason);
}
