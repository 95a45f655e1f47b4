//===- Random.h - classes of the ops in Random.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_RANDOM_H
#define CLEAVE_DIALECTS_ATEN_OPS_RANDOM_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Random.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_RANDOM_H
