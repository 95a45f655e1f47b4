//===- View.cpp - ops whose result shares the memory of their operand ------===//

#include "dialects/aten/ops/View.h"
#include "dialects/aten/ops/OpsImpl.h"

using namespace mlir;
using namespace cleave::aten;

#define GET_OP_CLASSES
#include "dialects/aten/ops/View.cpp.inc"

void cleave::aten::addViewOps(AtenDialect *dialect) {
  addOps<
#define GET_OP_LIST
#include "dialects/aten/ops/View.cpp.inc"
      >(dialect);
}

LogicalResult TOp::verify() {
  auto self = cast<RankedTensorType>(getSelf().getType());
  // 1.
  if (self.getRank() > 2)
    return emitOpError("expects at most two dimensions, found ") << self;
  // 2.
  SmallVector<int64_t> shape(llvm::reverse(self.getShape()));
  auto expected = RankedTensorType::get(shape, self.getElementType());
  if (getResult().getType() != expected)
    return emitOpError("expects a result of type ")
           << expected << ", found " << getResult().getType();
  return success();
}
