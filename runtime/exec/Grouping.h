//===- Grouping.h - products by group, and counts of static length ---*- C++ -*-===//
//
// Two operators of the dispatcher that cannot be called as they are:
//
// - `_grouped_mm`: the processor's kernel takes no f64, and only matrices whose rows begin at
// multiples
//   of 16 bytes, which a rank's part of them may not. Here is what that kernel computes, one
//   product of matrices for each group, for all of them.
// - `bincount`: its result grows with the largest number, the program's does not.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_GROUPING_H
#define CLEAVE_RUNTIME_EXEC_GROUPING_H

#include "runtime/exec/Kernels.h"

namespace cleave::runtime {

/// An instruction for one of these ops; null for others, and where a device has a kernel.
BindResult bindGrouping(Binder &binder, mlir::Operation *op);

/// `_grouped_mm` on the processor; `ends` is undefined where no dimension is divided. Throws
/// where the ends are no ends of groups.
at::Tensor multiplyGroups(const at::Tensor &left, const at::Tensor &right, const at::Tensor &ends,
                          at::ScalarType type);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_GROUPING_H
