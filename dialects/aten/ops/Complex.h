//===- Complex.h - classes of the ops in Complex.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_COMPLEX_H
#define CLEAVE_DIALECTS_ATEN_OPS_COMPLEX_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Complex.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_COMPLEX_H
