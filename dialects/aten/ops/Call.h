//===- Call.h - classes of the ops in Call.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CALL_H
#define CLEAVE_DIALECTS_ATEN_OPS_CALL_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Call.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_CALL_H
