//===- C10dReduction.h - reductions as c10d's backends know them --*- C++ -*-===//
//
// Private to the communicators over c10d. Which of them a backend can do as ATen would, its
// communicator says in `supports`.
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

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_C10DREDUCTION_H
