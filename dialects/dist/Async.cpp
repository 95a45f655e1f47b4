//===- Async.cpp - waiting: for a communication, for each other --------------===//

#include "dialects/dist/Verify.h"

using namespace mlir;
using namespace cleave::dist;

LogicalResult WaitOp::verify() {
  // 1.
  Type value = getFuture().getType().getValueType();
  if (value == getResult().getType())
    return success();
  return emitOpError("expects a result of the future's type ")
         << value << ", found " << getResult().getType();
}

void WaitOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  // Without a value, that it has been waited for is all that there is.
  if (isa<NoneType>(getResult().getType())) {
    effects.emplace_back(MemoryEffects::Read::get(), ChannelResource::get());
    effects.emplace_back(MemoryEffects::Write::get(), ChannelResource::get());
  }
}

LogicalResult BarrierOp::verify() {
  // 1. (the mesh: verifySymbolUses)
  return verifyAxes(describe(*this));
}

LogicalResult BarrierOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyOnMesh(describe(*this), symbols);
}

int64_t BarrierOp::getBytesSent(int64_t) {
  return 0;
}
