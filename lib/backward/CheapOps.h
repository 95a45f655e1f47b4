//===- CheapOps.h - ops that are cheaper to repeat than to remember -*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_CHEAPOPS_H
#define CLEAVE_LIB_BACKWARD_CHEAPOPS_H

#include "mlir/IR/Operation.h"

namespace cleave::backward {

/// Whether computing the op again costs no more than reading its operands and writing its result
/// once: elementwise ops, conversions, copies and fills. No sums, products of matrices, indexing,
/// random numbers or communication. The bits that come out are the same, since ops are pure.
bool isCheap(mlir::Operation *op);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_CHEAPOPS_H
