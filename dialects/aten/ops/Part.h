//===- Part.h - classes of the ops in Part.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_PART_H
#define CLEAVE_DIALECTS_ATEN_OPS_PART_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Part.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_PART_H
