//===- Ordering.h - classes of the ops in Ordering.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ORDERING_H
#define CLEAVE_DIALECTS_ATEN_OPS_ORDERING_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Ordering.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_ORDERING_H
