//===- Comparison.h - classes of the ops in Comparison.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COMPARISON_H
#define CLEAVE_DIALECTS_ATEN_OPS_COMPARISON_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Comparison.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_COMPARISON_H
