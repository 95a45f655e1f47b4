//===- Attention.h - classes of the ops in Attention.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ATTENTION_H
#define CLEAVE_DIALECTS_ATEN_OPS_ATTENTION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Attention.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_ATTENTION_H
