//===- Loss.h - classes of the ops in Loss.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_LOSS_H
#define CLEAVE_DIALECTS_ATEN_OPS_LOSS_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Loss.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_LOSS_H
