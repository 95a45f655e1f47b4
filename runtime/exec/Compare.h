//===- Compare.h - how far two tensors are apart -------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_COMPARE_H
#define CLEAVE_RUNTIME_EXEC_COMPARE_H

#include "cleave/Tensor.h"

namespace cleave::runtime {

/// Differences of two tensors with the same type. What is NaN or infinite in one of them only, or
/// infinite with different signs, is infinitely far apart.
struct Difference {
  bool isBitwiseEqual = true;
  double maxAbsolute = 0;  ///< max|a-b|
  double maxReference = 0; ///< max|b|, over its finite elements
  /// Where |a-b| is largest, in row-major order, and both numbers there (absolute values where they
  /// are complex); meaningful where `maxAbsolute` is not 0.
  int64_t at = 0;
  double a = 0, b = 0;
};
Difference computeDifference(const ConstTensorRef &a, const ConstTensorRef &b);

/// The element at `index` in row-major order, of a complex one its absolute value.
double toNumber(const ConstTensorRef &tensor, int64_t index = 0);

/// max|a-b| / max(max|b|, floor): gradients that are zero by mathematics hold rounding errors, so
/// they are measured against `floor`, 1e-3 of the gradients' median. 0 where a and b are equal.
double relativeDifference(const Difference &difference, double floor);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_COMPARE_H
