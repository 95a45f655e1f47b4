//===- GradientFlow.h - which values carry a gradient --------------*- C++ -*-===//
//
// Rule 3 of docs/types.md asks it: an I value may join R, V or S only if no gradient will flow to
// it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_TYPING_GRADIENTFLOW_H
#define CLEAVE_LIB_TYPING_GRADIENTFLOW_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave::placement {

/// Whether `function` holds its own gradients: it is an update, has a result of role gradient, or
/// ops marked `train.backward`. Nothing in it will be differentiated.
bool holdsGradients(mlir::func::FuncOp function);

/// The values of a function that depend, by differentiable ops, on arguments whose gradient is
/// asked for. Linear in the size of the function.
class GradientFlow {
public:
  /// By role: none in a function that holds its own gradients, else the parameters that are not
  /// frozen.
  explicit GradientFlow(mlir::func::FuncOp function);
  /// From the arguments at these positions.
  GradientFlow(mlir::func::FuncOp function, llvm::ArrayRef<unsigned> arguments);

  bool carries(mlir::Value value) const { return values.contains(value); }

private:
  void follow(mlir::func::FuncOp function, llvm::ArrayRef<unsigned> arguments);

  llvm::DenseSet<mlir::Value> values;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_GRADIENTFLOW_H
