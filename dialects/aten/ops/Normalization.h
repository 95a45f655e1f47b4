//===- Normalization.h - classes of the ops in Normalization.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_NORMALIZATION_H
#define CLEAVE_DIALECTS_ATEN_OPS_NORMALIZATION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Normalization.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_NORMALIZATION_H
