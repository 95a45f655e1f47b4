//===- Reduction.cpp - Reductions that a backend lacks ---------------------===//

#include "runtime/comm/Reduction.h"
#include "runtime/comm/Collectives.h"

#include <ATen/ATen.h>

using namespace cleave::runtime;

llvm::Error cleave::runtime::checkReduction(const ReductionOp &reduction, at::ScalarType type) {
  const char *expected = nullptr;
  switch (reduction.kind) {
  case ReductionKind::Average:
  case ReductionKind::PremultipliedSum:
    if (!at::isFloatingType(type) && !at::isComplexType(type))
      expected = "a floating-point or complex type";
    break;
  case ReductionKind::Max:
  case ReductionKind::Min:
  case ReductionKind::Product:
    if (at::isComplexType(type))
      expected = "a real type";
    break;
  case ReductionKind::BitAnd:
  case ReductionKind::BitOr:
  case ReductionKind::BitXor:
    if (!at::isIntegralType(type, /*includeBool=*/true))
      expected = "an integer type or booleans";
    break;
  default:
    break;
  }
  if (!expected)
    return llvm::Error::success();
  return llvm::createStringError("reduction %s expects %s, found %s",
                                 reductionName(reduction.kind).str().c_str(), expected,
                                 at::toString(type));
}

static ReductionKind onBytesOfBooleans(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Sum:
  case ReductionKind::Max:
    return ReductionKind::BitOr;
  case ReductionKind::Product:
  case ReductionKind::Min:
    return ReductionKind::BitAnd;
  default:
    return kind;
  }
}

LoweredReduction::LoweredReduction(const ReductionOp &reduction, at::ScalarType type, int terms)
    : asked(reduction), original(type), computed(type), between(reduction), terms(terms) {
  bool isSum =
      reduction.kind == ReductionKind::Average || reduction.kind == ReductionKind::PremultipliedSum;
  if (isSum)
    between = ReductionKind::Sum;
  if (type == at::kBool) {
    computed = at::kByte;
    between = onBytesOfBooleans(reduction.kind);
  } else if (at::isComplexType(type)) {
    // A sum of complex numbers is one of their parts.
    computed = at::toRealValueType(type);
  } else if (type == at::kShort) {
    computed = at::kInt;
  } else if ((type == at::kHalf || type == at::kBFloat16) &&
             (between.kind == ReductionKind::Sum || between.kind == ReductionKind::Product)) {
    computed = at::kFloat;
  }
}

at::Tensor LoweredReduction::before(const at::Tensor &operand) const {
  at::Tensor result;
  if (original == at::kBool)
    result = operand.contiguous().view(at::kByte);
  else if (at::isComplexType(original))
    result = at::view_as_real(operand.contiguous());
  else
    result = operand.to(computed);
  return asked.kind == ReductionKind::PremultipliedSum ? result.mul(asked.factor) : result;
}

at::Tensor LoweredReduction::after(at::Tensor result) const {
  if (asked.kind == ReductionKind::Average)
    result.div_(double(terms));
  if (at::isComplexType(original))
    return at::view_as_complex(result);
  return original == at::kBool ? result.view(at::kBool) : result.to(original);
}

static at::Tensor combine(ReductionKind kind, const at::Tensor &a, const at::Tensor &b) {
  switch (kind) {
  case ReductionKind::Max:
    return at::maximum(a, b);
  case ReductionKind::Min:
    return at::minimum(a, b);
  case ReductionKind::Product:
    return at::mul(a, b);
  case ReductionKind::BitAnd:
    return at::bitwise_and(a, b);
  case ReductionKind::BitOr:
    return at::bitwise_or(a, b);
  case ReductionKind::BitXor:
    return at::bitwise_xor(a, b);
  default:
    return at::add(a, b);
  }
}

at::Tensor LoweredReduction::fold(llvm::ArrayRef<at::Tensor> operands) const {
  at::Tensor result = before(operands.front());
  for (const at::Tensor &operand : operands.drop_front())
    result = combine(between.kind, result, before(operand));
  // With one operand, the result may share its memory.
  return after(operands.size() == 1 ? result.clone() : result);
}
