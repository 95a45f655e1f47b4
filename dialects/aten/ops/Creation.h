//===- Creation.h - classes of the ops in Creation.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CREATION_H
#define CLEAVE_DIALECTS_ATEN_OPS_CREATION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Creation.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_CREATION_H
