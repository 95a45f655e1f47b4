//===- View.h - classes of the ops in View.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_VIEW_H
#define CLEAVE_DIALECTS_ATEN_OPS_VIEW_H

#include "dialects/aten/Aten.h"

#include "mlir/IR/PatternMatch.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/View.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_VIEW_H
