//===- ReduceLast.h - a gradient's layout before its reductions ----*- C++ -*-===//
//
// A parameter's gradient is often reduced where it is made, and brought into the parameter's shape
// and type after that: transposed, viewed, converted from R to I. None of it depends on the
// reduction, and what accumulates gradients before they are reduced, or reduces several at once,
// wants them as the parameter is.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_REDUCELAST_H
#define CLEAVE_LIB_BACKWARD_REDUCELAST_H

#include "lib/backward/FsdpChains.h"

namespace cleave::backward {

/// In the chains of `function`'s gradients (`findGradientChains`), moves views, permutations of
/// dimensions and conversions of placements before the reductions, which then scatter the
/// dimension that corresponds. What cannot be moved (a view that merges the scattered dimension
/// into another one) stays, with what is after it. Copies after a reduction that change strides
/// alone are dropped.
void reduceLast(mlir::func::FuncOp function, const GradientResults &results);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_REDUCELAST_H
