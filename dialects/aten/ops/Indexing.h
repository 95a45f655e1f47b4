//===- Indexing.h - classes of the ops in Indexing.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_INDEXING_H
#define CLEAVE_DIALECTS_ATEN_OPS_INDEXING_H

#include "dialects/aten/Aten.h"

#define GET_OP_CLASSES
#include "dialects/aten/ops/Indexing.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_INDEXING_H
