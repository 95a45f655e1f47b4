//===- Softmax.h - classes of the ops in Softmax.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_SOFTMAX_H
#define CLEAVE_DIALECTS_ATEN_OPS_SOFTMAX_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Softmax.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_SOFTMAX_H
