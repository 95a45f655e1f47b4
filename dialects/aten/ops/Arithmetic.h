//===- Arithmetic.h - classes of the ops in Arithmetic.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ARITHMETIC_H
#define CLEAVE_DIALECTS_ATEN_OPS_ARITHMETIC_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Arithmetic.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_ARITHMETIC_H
