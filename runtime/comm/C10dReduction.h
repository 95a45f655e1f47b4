//===- C10dReduction.h - reductions as c10d's backends know them --*- C++ -*-===//
//
// Private to the communicators over c10d.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_C10DREDUCTION_H
#define CLEAVE_RUNTIME_COMM_C10DREDUCTION_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/TorchVersions.h"

#include "llvm/Support/ErrorHandling.h"

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace cleave::runtime {

/// A sum of what each rank has times `factor`.
template <typename Factor> c10d::ReduceOp makePremultipliedSum(const Factor &factor) {
#if CLEAVE_TORCH_HAS_NCCL_PREMUL_SUM
  return c10d::makeNCCLPreMulSum(factor);
#else
  return c10d::makePreMulSum(factor);
#endif
}

inline c10d::ReduceOp toC10d(const ReductionOp &reduction) {
  switch (reduction.kind) {
  case ReductionKind::Sum:
    return c10d::ReduceOp::SUM;
  case ReductionKind::Average:
    return c10d::ReduceOp::AVG;
  case ReductionKind::PremultipliedSum:
    return makePremultipliedSum(reduction.factor);
  case ReductionKind::Max:
    return c10d::ReduceOp::MAX;
  case ReductionKind::Min:
    return c10d::ReduceOp::MIN;
  case ReductionKind::Product:
    return c10d::ReduceOp::PRODUCT;
  case ReductionKind::BitAnd:
    return c10d::ReduceOp::BAND;
  case ReductionKind::BitOr:
    return c10d::ReduceOp::BOR;
  case ReductionKind::BitXor:
    return c10d::ReduceOp::BXOR;
  }
  llvm_unreachable("unknown reduction");
}

/// Whether Gloo's result of the reduction is ATen's.
///
/// Gloo reduces an element in one place and sends the result round, so all ranks have its bits. It
/// has more than these: but it rounds f16 and bf16 after each term, its maximum forgets NaNs, its
/// average is a sum and a division, it adds booleans up to bytes above 1, and it does not know i16.
inline bool glooReducesAsAten(const ReductionOp &reduction, c10::ScalarType type) {
  bool isWhole = type == at::kByte || type == at::kChar || type == at::kInt || type == at::kLong;
  switch (reduction.kind) {
  case ReductionKind::Sum:
  case ReductionKind::Product:
    return isWhole || type == at::kFloat || type == at::kDouble;
  case ReductionKind::Max:
  case ReductionKind::Min:
  case ReductionKind::BitAnd:
  case ReductionKind::BitOr:
  case ReductionKind::BitXor:
    return isWhole;
  case ReductionKind::Average:
  case ReductionKind::PremultipliedSum:
    break;
  }
  return false;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_C10DREDUCTION_H
