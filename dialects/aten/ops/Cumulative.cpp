//===- Cumulative.cpp - running products, and their gradient --------------===//

#include "dialects/aten/ops/Cumulative.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Cumulative.cpp.inc"

void cleave::aten::addCumulativeOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Cumulative.cpp.inc"
      >(dialect);
}

LogicalResult CumprodOp::verify() {
  // 1.
  Type dtype = getDtype().value_or(sumType(dtypeOf(getSelf())));
  if (failed(expectDType(*this, dtype)))
    return failure();
  // 2.
  if (failed(wrapDim(*this, getDim(), rankOf(getSelf()))))
    return failure();
  // 3.
  return expectResult(*this, 0, shapeOf(getSelf()), dtype);
}

LogicalResult CumprodBackwardOp::verify() {
  // 1.
  if (failed(expectFloating(*this, "grad", getGrad())) ||
      failed(expectShape(*this, "input", getInput(), shapeOf(getGrad()))) ||
      failed(expectShape(*this, "output", getOutput(), shapeOf(getGrad()))))
    return failure();
  // 2.
  if (failed(wrapDim(*this, getDim(), rankOf(getInput()))))
    return failure();
  // 3.
  return expectResultLike(*this, 0, getGrad());
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

static constexpr const char *kAllBefore = "each element is the product of all before it";

void CumprodOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), kAllBefore);
}

void CumprodBackwardOp::describeSharding(RuleBuilder &rule) {
  rule.allBut(getDim(), kAllBefore);
}
