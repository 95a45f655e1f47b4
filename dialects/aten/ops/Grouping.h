//===- Grouping.h - classes of the ops in Grouping.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_GROUPING_H
#define CLEAVE_DIALECTS_ATEN_OPS_GROUPING_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Grouping.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_GROUPING_H
