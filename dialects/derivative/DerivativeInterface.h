//===- DerivativeInterface.h - how an op is differentiated ---------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_DERIVATIVE_DERIVATIVEINTERFACE_H
#define CLEAVE_DIALECTS_DERIVATIVE_DERIVATIVEINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace cleave::autodiff {
class Backward;
} // namespace cleave::autodiff

#include "dialects/derivative/DerivativeInterface.h.inc"

#endif // CLEAVE_DIALECTS_DERIVATIVE_DERIVATIVEINTERFACE_H
