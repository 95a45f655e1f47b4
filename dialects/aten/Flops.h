//===- Flops.h - floating-point operations of aten's contractions ---*- C++ -*-===//
//
// What `CostOpInterface` answers for the ops whose time is arithmetic. A multiplication and an
// addition count as two. Values that are not ranked tensors (results that were not asked for) have
// no operations.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_ATEN_FLOPS_H
#define CLEAVE_DIALECTS_ATEN_FLOPS_H

#include "mlir/IR/ValueRange.h"

namespace cleave::aten {

/// A product that sums over the last dimension of `left`.
int64_t countProductFlops(mlir::Value left, mlir::Value result);

/// `_grouped_mm`: each element that groups divide is in one group at most.
int64_t countGroupedProductFlops(mlir::Value left, mlir::Value right);

/// Each element of `output` sums over one filter of `weight`.
int64_t countConvolutionFlops(mlir::Value output, mlir::Value weight);
/// The gradients of input and weight, where asked for, are convolutions of the forward's size.
int64_t countConvolutionBackwardFlops(mlir::Value gradient, mlir::Value weight,
                                      mlir::ValueRange results);

/// A Fourier transform along `dims` of tensors, the larger of which is complex throughout.
int64_t countFourierFlops(mlir::Value self, mlir::Value result, llvm::ArrayRef<int64_t> dims);

/// Queries with keys, and weights with values.
int64_t countAttentionFlops(mlir::Value query, mlir::Value key);
/// Computes the weights again, and has two products for each of the forward's two.
int64_t countAttentionBackwardFlops(mlir::Value query, mlir::Value key);

} // namespace cleave::aten

#endif // CLEAVE_DIALECTS_ATEN_FLOPS_H
