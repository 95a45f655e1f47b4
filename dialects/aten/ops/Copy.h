//===- Copy.h - classes of the ops in Copy.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COPY_H
#define CLEAVE_DIALECTS_ATEN_OPS_COPY_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Copy.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_COPY_H
