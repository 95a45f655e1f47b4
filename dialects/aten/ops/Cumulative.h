//===- Cumulative.h - classes of the ops in Cumulative.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CUMULATIVE_H
#define CLEAVE_DIALECTS_ATEN_OPS_CUMULATIVE_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Cumulative.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_CUMULATIVE_H
