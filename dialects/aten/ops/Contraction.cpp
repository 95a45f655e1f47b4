//===- Contraction.cpp - matrix products and convolutions ------------------===//

#include "dialects/aten/ops/Contraction.h"
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

LogicalResult MmOp::verify() {
  auto self = cast<RankedTensorType>(getSelf().getType());
  auto mat2 = cast<RankedTensorType>(getMat2().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  // 1.
  if (self.getRank() != 2 || mat2.getRank() != 2)
    return emitOpError("expects two matrices, found ") << self << " and " << mat2;
  if (self.getDimSize(1) != mat2.getDimSize(0))
    return emitOpError("expects as many rows in `mat2` as columns in `self`, found ")
           << self << " and " << mat2;
  // 2.
  auto expected =
      RankedTensorType::get({self.getDimSize(0), mat2.getDimSize(1)}, self.getElementType());
  if (mat2.getElementType() != self.getElementType() || result != expected)
    return emitOpError("expects a result of type ") << expected << ", found " << result;
  return success();
}
