//===- Upsampling.h - classes of the ops in Upsampling.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_UPSAMPLING_H
#define CLEAVE_DIALECTS_ATEN_OPS_UPSAMPLING_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Upsampling.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_UPSAMPLING_H
