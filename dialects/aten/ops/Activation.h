//===- Activation.h - classes of the ops in Activation.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION_H
#define CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Activation.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION_H
