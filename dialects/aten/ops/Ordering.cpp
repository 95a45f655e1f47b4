//===- Ordering.cpp - elements by rank ------------------------------------===//

#include "dialects/aten/ops/Ordering.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Ordering.cpp.inc"

void cleave::aten::addOrderingOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Ordering.cpp.inc"
      >(dialect);
}

/// Values like `self`, and their places, in `shape`.
static LogicalResult expectValuesAndPlaces(Operation *op, ArrayRef<int64_t> shape, Value self) {
  if (failed(expectResult(op, 0, shape, dtypeOf(self))))
    return failure();
  return expectResult(op, 1, shape, IntegerType::get(op->getContext(), 64));
}

LogicalResult TopkOp::verify() {
  // 1.
  Shape shape(shapeOf(getSelf()));
  FailureOr<int64_t> dim = wrapDim(*this, getDim().value_or(-1), shape.size());
  if (failed(dim))
    return failure();
  // 2.
  int64_t k = getK(), size = shape.empty() ? 1 : shape[*dim];
  if (k < 0 || k > size)
    return emitOpError("expects `k` between 0 and ") << size << ", found " << k;
  // 3. and 4.
  if (!shape.empty())
    shape[*dim] = k;
  return expectValuesAndPlaces(*this, shape, getSelf());
}

LogicalResult SortOp::verify() {
  // 1.
  if (failed(wrapDim(*this, getDim().value_or(-1), rankOf(getSelf()))))
    return failure();
  // 2. and 3.
  return expectValuesAndPlaces(*this, shapeOf(getSelf()), getSelf());
}

LogicalResult MaxDimOp::verify() {
  // 1.
  FailureOr<int64_t> dim = wrapDim(*this, getDim(), rankOf(getSelf()));
  if (failed(dim))
    return failure();
  // 2. and 3.
  Shape shape = reduceShape(shapeOf(getSelf()), {*dim}, getKeepdim().value_or(false));
  return expectValuesAndPlaces(*this, shape, getSelf());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static const char *orderReason = "any of its elements may be the largest";

void TopkOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim().value_or(-1), orderReason);
}

void SortOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim().value_or(-1), orderReason);
}

void MaxDimOp::describeSharding(RuleBuilder &rule) {
  int64_t dim = wrapped(getDim(), rankOf(getSelf()));
  if (getKeepdim().value_or(false))
    rule.sameDims({dim}, {dim}, orderReason);
  else
    rule.sameDims({dim}, {}, orderReason);
}
