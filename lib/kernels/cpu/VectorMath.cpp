//===- VectorMath.cpp - elementary functions of vectors ----------------------===//
//
// Upstream's approximations (mlir/Dialect/Math/Transforms) guard every special value with a select;
// here the ranges are clamped so that arithmetic itself gives infinities and zeros, and a NaN goes
// through. That is half the instructions.
//
//===----------------------------------------------------------------------===//

#include "lib/kernels/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;
using cleave::kernels::CpuTarget;

namespace {

/// Formulas over one type of f32 vectors.
class Formula {
public:
  Formula(ImplicitLocOpBuilder &b, VectorType type, const CpuTarget &target)
      : b(b), type(type), target(target) {}

  Value number(double value) {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(type, float(value)));
  }
  Value integer(int32_t value) {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(integers(), value));
  }
  Value fma(Value x, Value y, Value z) {
    if (!target.hasFma)
      return add(mul(x, y), z);
    return math::FmaOp::create(b, x, y, z);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  /// From the highest power down.
  Value polynomial(Value x, ArrayRef<double> coefficients) {
    Value result = number(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      result = fma(result, x, number(coefficient));
    return result;
  }
  /// A NaN stays one; one instruction for each bound.
  Value clamp(Value x, double low, double high) {
    auto bound = [&](arith::CmpFPredicate beyond, Value limit) {
      Value isBeyond = arith::CmpFOp::create(b, beyond, x, limit);
      x = arith::SelectOp::create(b, isBeyond, limit, x);
    };
    bound(arith::CmpFPredicate::OLT, number(low));
    bound(arith::CmpFPredicate::OGT, number(high));
    return x;
  }

  /// `yes` where `x` is below the bound; `no` elsewhere, and where it is NaN.
  Value select(Value x, double bound, Value yes, Value no) {
    Value isBelow = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, number(bound));
    return arith::SelectOp::create(b, isBelow, yes, no);
  }

  Value exp(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value log(Value x);

  ImplicitLocOpBuilder &b;

private:
  VectorType integers() { return type.clone(b.getI32Type()); }
  Value bits(Value x) { return arith::BitcastOp::create(b, integers(), x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, type, x); }

  /// Added to a number below 2^22, it leaves the nearest whole number in the last bits.
  static constexpr double kMagic = 12582912.0;
  Value oddQuotient(Value x, double bound, ArrayRef<double> p, ArrayRef<double> q);
  VectorType type;
  const CpuTarget &target;
};

} // namespace

/// e^x as 2^n * e^r with n whole and |r| <= ln(2) / 2; the polynomial of e^r is the best one of its
/// degree in relative error (3e-9), with the first two coefficients 1.
Value Formula::exp(Value x) {
  // In the sum with the magic number, the last bits are n.
  auto reduce = [&](double magic) {
    Value shifted = fma(x, number(1.44269504088896341), number(magic));
    Value n = sub(shifted, number(magic));
    Value r = fma(n, number(-0.693359375), x);
    return std::pair(shifted, std::pair(n, fma(n, number(2.12194440e-4), r)));
  };
  auto powers = [&](Value r, double factor) {
    SmallVector<double> coefficients{
        1.381402719e-3, 8.368992607e-3, 4.166841489e-2, 1.666651835e-1, 4.999999329e-1, 1, 1};
    for (double &coefficient : coefficients)
      coefficient *= factor;
    return polynomial(r, coefficients);
  };
  if (target.hasScale && type.getNumElements() == 16) {
    // Beyond these bounds, scaling gives infinity and 0.
    x = clamp(x, -104.0, 89.0);
    auto [n, r] = reduce(kMagic).second;
    // All lanes, rounded as usual.
    Value mask = arith::ConstantOp::create(b, b.getI16IntegerAttr(-1));
    Value rounding = arith::ConstantOp::create(b, b.getI32IntegerAttr(4));
    return LLVM::CallIntrinsicOp::create(b, type,
                                         b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                         ValueRange{powers(r, 1), n, number(0), mask, rounding})
        .getResults();
  }
  // 2^(n - 1) times twice e^r, since 2^128 is not a normal number. With the exponent's bias in the
  // magic number, the sum shifted to the left is that power; at the lower bound it is 0, so that
  // results below 2^-125 are.
  x = clamp(x, -87.6, 89.0);
  auto [shifted, parts] = reduce(kMagic + 126);
  Value power = fromBits(arith::ShLIOp::create(b, bits(shifted), integer(23)));
  return mul(powers(parts.second, 2), power);
}

/// x P(x^2) / Q(x^2) between bounds at which that is 1: exactly, with fused multiply-adds and
/// without, so that 1 - |erf| is 0 beyond them as it should be. Coefficients from the lowest power
/// up; Q begins with 1.
Value Formula::oddQuotient(Value x, double bound, ArrayRef<double> p, ArrayRef<double> q) {
  x = clamp(x, -bound, bound);
  Value square = mul(x, x);
  Value numerator = mul(x, polynomial(square, llvm::to_vector(llvm::reverse(p))));
  return arith::DivFOp::create(b, numerator, polynomial(square, llvm::to_vector(llvm::reverse(q))));
}

/// The coefficients of this function and the next have the least largest relative error of their
/// degrees: 2.1e-8 and 1.7e-8.
Value Formula::tanh(Value x) {
  return oddQuotient(
      x, 9.0, {9.999999798e-1, 1.338096411e-1, 3.495512650e-3, 2.060776635e-5, 1.335273875e-8},
      {1, 4.671427984e-1, 2.587670100e-2, 3.285507914e-4, 7.775790388e-7});
}

Value Formula::erf(Value x) {
  return oddQuotient(
      x, 3.905,
      {1.128379148, 1.896457323e-1, 5.266497758e-2, 3.737365136e-3, 2.850275697e-4, 2.066465041e-6},
      {1, 5.014019407e-1, 1.138099573e-1, 1.491230898e-2, 1.157115650e-3, 3.826813677e-5});
}

/// n * ln(2) + log(m) with m from sqrt(1/2) to sqrt(2); the polynomial is that of Cephes' logf.
Value Formula::log(Value x) {
  using P = arith::CmpFPredicate;
  auto choose = [&](P predicate, double bound, Value yes, Value no) -> Value {
    return arith::SelectOp::create(b, arith::CmpFOp::create(b, predicate, x, number(bound)), yes,
                                   no);
  };
  // Numbers without a leading one get one.
  constexpr double kSmallest = 1.17549435e-38;
  Value scaled = choose(P::OLT, kSmallest, mul(x, number(8388608.0)), x);
  Value correction = choose(P::OLT, kSmallest, number(-23), number(0));
  // The significand in [sqrt(1/2), sqrt(2)), and the exponent that goes with it.
  Value offset = arith::SubIOp::create(b, bits(scaled), integer(0x3f3504f3));
  Value exponent = arith::ShRSIOp::create(b, offset, integer(23));
  Value significand = arith::AddIOp::create(
      b, arith::AndIOp::create(b, offset, integer(0x007fffff)), integer(0x3f3504f3));
  Value n = add(arith::SIToFPOp::create(b, type, exponent), correction);
  Value r = sub(fromBits(significand), number(1));
  Value square = mul(r, r);
  Value p = polynomial(r, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
                           1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
                           3.3333331174e-1});
  Value tail = fma(n, number(-2.12194440e-4), mul(mul(p, r), square));
  tail = fma(square, number(-0.5), tail);
  Value result = fma(n, number(0.693359375), add(r, tail));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result = choose(P::OEQ, 0, number(-kInfinity), result);
  result = choose(P::OEQ, kInfinity, number(kInfinity), result);
  // For negative numbers and NaN.
  return choose(P::UGE, 0, choose(P::UNO, 0, x, result),
                number(std::numeric_limits<double>::quiet_NaN()));
}

/// What the C library computes: `name` for f64, with an f after it for f32.
static StringRef libraryName(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Case("math.exp", "exp")
      .Case("math.log", "log")
      .Case("math.log1p", "log1p")
      .Case("math.sin", "sin")
      .Case("math.cos", "cos")
      .Case("math.tanh", "tanh")
      .Case("math.erf", "erf")
      .Case("math.powf", "pow")
      .Default("");
}

static LLVM::LLVMFuncOp declare(ModuleOp module, StringRef name, Type type, unsigned operands) {
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto function = LLVM::LLVMFunctionType::get(type, SmallVector<Type>(operands, type));
  return LLVM::LLVMFuncOp::create(b, module.getLoc(), name, function);
}

static Value callLibrary(ImplicitLocOpBuilder &b, ModuleOp module, Operation *op, StringRef name) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  std::string symbol = (name + (element.isF32() ? "f" : "")).str();
  LLVM::LLVMFuncOp function = declare(module, symbol, element, op->getNumOperands());
  auto call = [&](ValueRange operands) {
    return LLVM::CallOp::create(b, function, operands).getResult();
  };
  auto vector = dyn_cast<VectorType>(op->getResult(0).getType());
  if (!vector)
    return call(op->getOperands());
  Value result = arith::ConstantOp::create(b, b.getZeroAttr(vector));
  for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
    SmallVector<Value, 2> operands;
    for (Value operand : op->getOperands())
      operands.push_back(vector::ExtractOp::create(b, operand, lane));
    result = vector::InsertOp::create(b, call(operands), result, lane);
  }
  return result;
}

void cleave::kernels::lowerVectorMath(ModuleOp module, const CpuTarget &target) {
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (!libraryName(op).empty())
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    ImplicitLocOpBuilder b(op->getLoc(), op);
    auto vector = dyn_cast<VectorType>(op->getResult(0).getType());
    StringRef name = libraryName(op);
    Value result;
    if (vector && vector.getElementType().isF32()) {
      Formula formula(b, vector, target);
      Value x = op->getOperand(0);
      if (name == "exp")
        result = formula.exp(x);
      else if (name == "tanh")
        result = formula.tanh(x);
      else if (name == "erf")
        result = formula.erf(x);
      else if (name == "log")
        result = formula.log(x);
    }
    if (!result)
      result = callLibrary(b, module, op, name);
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}
