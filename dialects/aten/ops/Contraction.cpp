//===- Contraction.cpp - matrix products ----------------------------------===//

#include "dialects/aten/ops/Contraction.h"
#include "dialects/aten/Checks.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/Contraction.cpp.inc"

void cleave::aten::addContractionOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/Contraction.cpp.inc"
      >(dialect);
}

/// Constraints 1 to 3 of all products: `a` (batched M x K) times `b` (batched K x N), where the
/// trailing dimension is absent from a vector. `batched` dimensions lead both.
static LogicalResult verifyProduct(Operation *op, StringRef aName, Value a, StringRef bName,
                                   Value b, int64_t rankA, int64_t rankB, int64_t batched) {
  // 1.
  if (failed(expectRank(op, aName, a, rankA)) || failed(expectRank(op, bName, b, rankB)))
    return failure();
  ArrayRef<int64_t> left = shapeOf(a), right = shapeOf(b);
  if (left.take_front(batched) != right.take_front(batched) || left.back() != right[batched])
    return op->emitOpError("cannot multiply `")
           << aName << "` and `" << bName << "`, found " << a.getType() << " and " << b.getType();
  // 2.
  for (Value operand : op->getOperands())
    if (dtypeOf(operand) != dtypeOf(a))
      return op->emitOpError("expects operands of the same dtype, found ")
             << operand.getType() << " and " << a.getType();
  // 3.
  Shape shape(left.drop_back());
  shape.append(right.begin() + batched + 1, right.end());
  return expectResult(op, 0, shape, dtypeOf(a));
}

/// Constraint 4 of the products that add `self`.
static LogicalResult verifyAddend(Operation *op, Value self, Value result) {
  if (broadcastsTo(shapeOf(self), shapeOf(result)))
    return success();
  return op->emitOpError("expects `self` to broadcast to ")
         << result.getType() << ", found " << self.getType();
}

LogicalResult MmOp::verify() {
  return verifyProduct(*this, "self", getSelf(), "mat2", getMat2(), 2, 2, 0);
}

LogicalResult BmmOp::verify() {
  return verifyProduct(*this, "self", getSelf(), "mat2", getMat2(), 3, 3, 1);
}

LogicalResult AddmmOp::verify() {
  if (failed(verifyProduct(*this, "mat1", getMat1(), "mat2", getMat2(), 2, 2, 0)))
    return failure();
  // 4.
  return verifyAddend(*this, getSelf(), getResult());
}

LogicalResult BaddbmmOp::verify() {
  if (failed(verifyProduct(*this, "batch1", getBatch1(), "batch2", getBatch2(), 3, 3, 1)))
    return failure();
  // 4.
  return verifyAddend(*this, getSelf(), getResult());
}

LogicalResult MvOp::verify() {
  return verifyProduct(*this, "self", getSelf(), "vec", getVec(), 2, 1, 0);
}

LogicalResult DotOp::verify() {
  return verifyProduct(*this, "self", getSelf(), "tensor", getTensor(), 1, 1, 0);
}
