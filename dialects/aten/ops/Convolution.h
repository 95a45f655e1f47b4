//===- Convolution.h - classes of the ops in Convolution.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CONVOLUTION_H
#define CLEAVE_DIALECTS_ATEN_OPS_CONVOLUTION_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Convolution.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_CONVOLUTION_H
