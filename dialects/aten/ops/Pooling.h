//===- Pooling.h - classes of the ops in Pooling.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_POOLING_H
#define CLEAVE_DIALECTS_ATEN_OPS_POOLING_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Pooling.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_POOLING_H
