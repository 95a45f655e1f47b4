//===- RandomPhilox.h - random ops whose generator is Philox -------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_RANDOMPHILOX_H
#define CLEAVE_RUNTIME_EXEC_RANDOMPHILOX_H

#include "runtime/exec/Kernels.h"

namespace cleave::runtime {

/// Whether the op's `generator` is "philox".
bool isPhilox(mlir::Operation *op);

BindResult bindPhiloxDropout(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxBernoulli(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxUniform(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxNormal(Binder &binder, mlir::Operation *op);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_RANDOMPHILOX_H
