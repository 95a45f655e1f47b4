//===- NarrowFloats.h - f16 and bf16 by integer arithmetic ----------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_CPU_NARROWFLOATS_H
#define CLEAVE_LIB_KERNELS_CPU_NARROWFLOATS_H

#include "mlir/IR/BuiltinOps.h"

namespace cleave::kernels {

/// Replaces conversions between f32 and bf16, and f16 unless the target `hasHalf`, by integer
/// arithmetic on their bits, as which they are also loaded and stored: where no instruction
/// converts them, LLVM would call functions of a compiler's runtime, one number at a time.
void expandNarrowFloats(mlir::ModuleOp module, bool hasHalf);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_NARROWFLOATS_H
