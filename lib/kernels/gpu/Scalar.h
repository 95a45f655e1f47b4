//===- Scalar.h - functions of numbers, for one GPU thread ----------*- C++ -*-===//

#ifndef CLEAVE_LIB_KERNELS_GPU_SCALAR_H
#define CLEAVE_LIB_KERNELS_GPU_SCALAR_H

#include "lib/kernels/program/RowProgram.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace cleave::kernels::gpu {

/// Writes arithmetic on scalars at the builder's insertion point: ops of the arith and LLVM
/// dialects, and calls of libdevice where the hardware has no instruction of full precision.
class ScalarEmitter {
public:
  /// Declarations of device functions go to `module`.
  ScalarEmitter(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *module)
      : b(builder), module(module) {}

  mlir::Type getType(ComputeType type);
  /// As which a tensor's elements are stored; booleans are bytes. `dtype` may be of another
  /// context.
  mlir::Type getStorageType(mlir::Type dtype);

  mlir::Value constant(ComputeType type, double number, int64_t integer);
  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);

  /// `function` of operands of type `operandType`; `type` is the result's.
  mlir::Value map(Function function, ComputeType type, ComputeType operandType,
                  mlir::ValueRange operands);
  mlir::Value convert(mlir::Value value, ComputeType from, ComputeType to);
  /// From and to what is stored for `dtype`.
  mlir::Value fromStorage(mlir::Value value, mlir::Type dtype);
  mlir::Value toStorage(mlir::Value value, ComputeType from, mlir::Type dtype);

  /// What a reduction begins with, and its step.
  mlir::Value neutral(RowReduction reduction, ComputeType type);
  mlir::Value combine(RowReduction reduction, ComputeType type, mlir::Value a, mlir::Value b);

private:
  mlir::Value compare(Function function, ComputeType type, mlir::Value x, mlir::Value y);
  /// A function of libdevice: `name` with an `f` after it for F32.
  mlir::Value call(llvm::StringRef name, ComputeType type, mlir::ValueRange operands);

  mlir::ImplicitLocOpBuilder &b;
  mlir::Operation *module;
};

} // namespace cleave::kernels::gpu

#endif // CLEAVE_LIB_KERNELS_GPU_SCALAR_H
