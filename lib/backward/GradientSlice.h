//===- GradientSlice.h - what a gradient is computed from ----------*- C++ -*-===//
//
// A backward slice over the values of a function. It knows two things that a slice over ops does
// not: an op with an output mask computes its results one by one, and slices may start from values
// that another one has.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_GRADIENTSLICE_H
#define CLEAVE_LIB_BACKWARD_GRADIENTSLICE_H

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseSet.h"

namespace cleave::backward {

class GradientSlice {
public:
  /// A slice that stops at the values of `given`, which are computed elsewhere.
  explicit GradientSlice(const GradientSlice *given = nullptr) : given(given) {}

  /// Adds `value` and everything that it is computed from, block arguments excepted.
  void add(mlir::Value value);

  bool contains(mlir::Value value) const { return values.contains(value); }
  /// Whether the slice computes a result of `op`.
  bool containsOp(mlir::Operation *op) const {
    return llvm::any_of(op->getResults(), [&](mlir::Value v) { return contains(v); });
  }
  bool empty() const { return values.empty(); }

private:
  const GradientSlice *given;
  llvm::DenseSet<mlir::Value> values;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_GRADIENTSLICE_H
