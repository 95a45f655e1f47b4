//===- Grouping.cpp - what sends tokens to experts ------------------------===//

#include "dialects/aten/ops/Grouping.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

#include <cmath>

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Grouping.cpp.inc"

void cleave::aten::addGroupingOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Grouping.cpp.inc"
      >(dialect);
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult GroupedMmOp::verify() {
  // 1.
  Value self = getSelf(), mat2 = getMat2();
  int64_t rank = rankOf(self), rank2 = rankOf(mat2);
  for (Value matrix : {self, mat2})
    if (rankOf(matrix) != 2 && rankOf(matrix) != 3)
      return emitOpError("expects `self` and `mat2` of two or three dimensions each, found ")
             << matrix.getType();
  ArrayRef<int64_t> left = shapeOf(self), right = shapeOf(mat2);
  bool batches = rank == 3 && rank2 == 3;
  if (left.back() != right[rank2 - 2] || (batches && left[0] != right[0]))
    return emitOpError("cannot multiply `self` and `mat2`, found ")
           << self.getType() << " and " << mat2.getType();
  // 2.
  if (failed(expectFloating(*this, "self", self)) ||
      failed(expectSameDType(*this, "mat2", mat2, "self", self)))
    return failure();
  // 3.
  int64_t groups = rank == 3 ? left[0] : right[0];
  if (batches) {
    if (getOffs())
      return emitOpError("expects no `offs` where no dimension is divided, found ")
             << getOffs().getType();
  } else {
    if (!getOffs())
      return emitOpError("expects `offs`, the ends of the groups; found none");
    if (failed(expectRank(*this, "offs", getOffs(), 1)))
      return failure();
    if (rank == 2 && rank2 == 2)
      groups = shapeOf(getOffs())[0];
    if (shapeOf(getOffs())[0] != groups)
      return emitOpError("expects `offs` with one element for each of ")
             << groups << " groups, found " << getOffs().getType();
    if (!dtypeOf(getOffs()).isSignlessInteger(32))
      return emitOpError("expects `offs` to have dtype i32, found ") << getOffs().getType();
  }
  // 4.
  if (getBias())
    return emitOpError("expects no `bias`, which PyTorch does not support");
  // 5.
  Type dtype = getOutDtype().value_or(dtypeOf(self));
  if (failed(expectDType(*this, dtype, "out_dtype")))
    return failure();
  Shape shape = {left[rank - 2], right.back()};
  if (rank == rank2)
    shape.insert(shape.begin(), groups);
  return expectResult(*this, 0, shape, dtype);
}

LogicalResult SortStableOp::verify() {
  // 1.
  if (failed(wrapDim(*this, getDim().value_or(-1), rankOf(getSelf()))))
    return failure();
  // 2. and 3.
  if (failed(expectResultLike(*this, 0, getSelf())))
    return failure();
  return expectResult(*this, 1, shapeOf(getSelf()), IntegerType::get(getContext(), 64));
}

static double numberOf(Attribute scalar) {
  if (!scalar)
    return 0;
  if (auto number = dyn_cast<FloatAttr>(scalar))
    return number.getValueAsDouble();
  auto number = cast<IntegerAttr>(scalar);
  bool isBoolean = number.getType().isInteger(1);
  return isBoolean ? double(number.getValue().getZExtValue()) : double(number.getInt());
}

LogicalResult HistcOp::verify() {
  // 1.
  int64_t bins = getBins().value_or(100);
  if (bins <= 0)
    return emitOpError("expects positive `bins`, found ") << bins;
  // 2.
  double min = numberOf(getMinAttr()), max = numberOf(getMaxAttr());
  if (!std::isfinite(min) || !std::isfinite(max))
    return emitOpError("expects finite `min` and `max`");
  if (min > max)
    return emitOpError("expects `min` at most `max`, found ") << min << " and " << max;
  // 3.
  return expectResult(*this, 0, {bins}, dtypeOf(getSelf()));
}

LogicalResult BincountOp::verify() {
  // 1.
  Value self = getSelf(), weights = getWeights();
  if (failed(expectRank(*this, "self", self, 1)))
    return failure();
  if (!isa<IntegerType>(dtypeOf(self)) || isBool(dtypeOf(self)))
    return emitOpError("expects `self` to have an integer dtype, found ") << self.getType();
  // 2.
  if (failed(expectShape(*this, "weights", weights, shapeOf(self))))
    return failure();
  // 3.
  int64_t length = getMinlength().value_or(0);
  if (length <= 0)
    return emitOpError("expects a positive `minlength`, the static size of the result; found ")
           << length;
  // 4.
  Builder b(getContext());
  Type dtype = b.getI64Type();
  if (weights)
    dtype = dtypeOf(weights).isF32() ? dtypeOf(weights) : b.getF64Type();
  return expectResult(*this, 0, {length}, dtype);
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

void GroupedMmOp::describeSharding(RuleBuilder &rule) {
  static const char *placeReason = "an element's place along it says which group it belongs to";
  static const char *groupReason = "a group begins where the one before it ends";
  // The ends of groups do not lie as their matrices do: a rank needs to know where its first group
  // begins.
  static const sharding::RuleText rows("mk, gkn, o, n -> mn"), sums("mk, kn, o, n -> gmn"),
      columns("gmk, kn, o, n -> mn"), batches("gmk, gkn, o, n -> gmn");
  bool isLeft2d = rankOf(getSelf()) == 2, isRight2d = rankOf(getMat2()) == 2;
  if (!isLeft2d && !isRight2d)
    return rule.text(batches);
  rule.text(!isRight2d ? rows : isLeft2d ? sums : columns);
  rule.makeWholeLetter(!isRight2d ? 'm' : isLeft2d ? 'k' : 'n', placeReason);
  rule.makeWholeLetter('g', groupReason);
  rule.makeWholeLetter('o', groupReason);
}

void SortStableOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim().value_or(-1), "any of its elements may be the largest");
}

/// Each element of the first operand is counted in the result's bins.
static void countingSharding(RuleBuilder &rule, const char *reason) {
  for (auto [dim, size] : llvm::enumerate(rule.operandShape(0))) {
    FactorId counted = reason ? rule.whole(size, reason) : rule.factor(size, FactorReduction::Sum);
    for (unsigned operand = 0; operand < rule.get().operands.size(); ++operand)
      rule.operandDim(operand, dim, counted);
  }
  rule.closeWhole("any element may be counted in any bin");
}

void HistcOp::describeSharding(RuleBuilder &rule) {
  bool fromElements = numberOf(getMinAttr()) == numberOf(getMaxAttr());
  countingSharding(rule, fromElements ? "the interval is that of all elements" : nullptr);
}

void BincountOp::describeSharding(RuleBuilder &rule) {
  countingSharding(rule, nullptr);
  if (std::optional<unsigned> weights = rule.operand("weights"))
    rule.linear({*weights}, {});
}
