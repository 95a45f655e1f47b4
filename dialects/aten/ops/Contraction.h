//===- Contraction.h - classes of the ops in Contraction.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION_H
#define CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Contraction.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_CONTRACTION_H
