//===- InPlace.h - ops that may write over what they read ----------*- C++ -*-===//

#ifndef CLEAVE_LIB_MEMORY_INPLACE_H
#define CLEAVE_LIB_MEMORY_INPLACE_H

#include "mlir/IR/Operation.h"

namespace cleave::exec {

/// Whether result 0, the only one of `op`, may be written over operand `operand`, which has its
/// type: each element is computed from the elements in its place alone, and there is a kernel that
/// reads them before it writes. Of ops whose `out` overload computes elsewhere and copies, nothing
/// would be gained: they are not among these.
bool mayOverwrite(mlir::Operation *op, unsigned operand);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_INPLACE_H
