//===- Host.cpp - copies to and from host memory ------------------------------===//

#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave::dist;

LogicalResult HostType::verify(function_ref<InFlightDiagnostic()> emitError,
                               RankedTensorType valueType) {
  // 1.
  if (isTensor(valueType))
    return success();
  return emitError() << "expected a statically shaped tensor of numbers or booleans, found "
                     << valueType;
}

LogicalResult OffloadOp::verify() {
  // 1.
  RankedTensorType held = getResult().getType().getValueType();
  if (held == getInput().getType())
    return success();
  return emitOpError("expects a result that is a host copy of the operand's type ")
         << getInput().getType() << ", found one of " << held;
}

LogicalResult ReloadOp::verify() {
  // 1.
  RankedTensorType held = getInput().getType().getValueType();
  if (held == getResult().getType())
    return success();
  return emitOpError("expects a result of the type that the operand is a host copy of, ")
         << held << ", found " << getResult().getType();
}
