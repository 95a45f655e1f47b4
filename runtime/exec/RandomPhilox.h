//===- RandomPhilox.h - random ops whose generator is Philox -------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_RANDOMPHILOX_H
#define CLEAVE_RUNTIME_EXEC_RANDOMPHILOX_H

#include "runtime/exec/Kernels.h"

namespace cleave::runtime {

class Device;
class Program;

/// Whether the op's `generator` is "philox".
bool isPhilox(mlir::Operation *op);
/// The first random op of the program that `matches`; null if there is none.
mlir::Operation *findRandomOp(const Program &program,
                              llvm::function_ref<bool(mlir::Operation *)> matches);
/// Whether the device can draw all random numbers of the program.
bool canDrawOnDevice(const Program &program, const Device &device);

BindResult bindPhiloxDropout(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxBernoulli(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxUniform(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxNormal(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxExponential(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxRandint(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxRandperm(Binder &binder, mlir::Operation *op);
BindResult bindPhiloxMultinomial(Binder &binder, mlir::Operation *op);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_RANDOMPHILOX_H
