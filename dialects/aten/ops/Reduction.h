//===- Reduction.h - classes of the ops in Reduction.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_REDUCTION_H
#define CLEAVE_DIALECTS_ATEN_OPS_REDUCTION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Reduction.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_REDUCTION_H
