//===- VectorMath.h - elementary functions of vectors ---------------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_CPU_VECTORMATH_H
#define CLEAVE_LIB_KERNELS_CPU_VECTORMATH_H

#include "lib/kernels/cpu/EmitKernel.h"

namespace cleave::kernels {

/// Replaces the `math` ops of `module` that no instruction computes. Of f32 vectors, `exp`, `tanh`,
/// `erf` and `log` become arithmetic (docs/kernels.md has their errors); everything else calls the
/// C library, lane by lane.
void lowerVectorMath(mlir::ModuleOp module, const CpuTarget &target);

} // namespace cleave::kernels

#endif // CLEAVE_LIB_KERNELS_CPU_VECTORMATH_H
