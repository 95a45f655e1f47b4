//===- Loss.h - classes of the ops in Loss.td -*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_LOSS_H
#define CLEAVE_DIALECTS_ATEN_OPS_LOSS_H

#include "dialects/aten/Aten.h"

namespace cleave::aten {

/// Values of a loss's `reduction`, as in ATen's `at::Reduction`.
enum LossReduction : int64_t { noReduction = 0, meanReduction = 1, sumReduction = 2 };

} // namespace cleave::aten

#define GET_OP_CLASSES
#include "dialects/aten/ops/Loss.h.inc"

#endif // CLEAVE_DIALECTS_ATEN_OPS_LOSS_H
