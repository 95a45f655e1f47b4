//===- CostInterface.h - what an op computes and reads -------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_COST_COSTINTERFACE_H
#define CLEAVE_DIALECTS_COST_COSTINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include "dialects/cost/CostInterface.h.inc"

#endif // CLEAVE_DIALECTS_COST_COSTINTERFACE_H
