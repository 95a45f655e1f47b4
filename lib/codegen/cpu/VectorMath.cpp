//===- VectorMath.cpp - elementary functions of vectors ----------------------===//
//
// Upstream's approximations (mlir/Dialect/Math/Transforms) guard every special value with a select;
// here the ranges are clamped so that arithmetic itself gives infinities and zeros, and a NaN goes
// through. That is half the instructions.
//
//===----------------------------------------------------------------------===//

#include "lib/codegen/cpu/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;
using cleave::codegen::CpuTarget;

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

  Value abs(Value x) { return math::AbsFOp::create(b, x); }
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
  static constexpr int32_t kMagicBits = 0x4b400000;
  Value scale(Value x, Value n, Value shifted);
  VectorType type;
  const CpuTarget &target;
};

} // namespace

/// `x * 2^n` for a whole number n, of which `shifted` has the last bits, too.
Value Formula::scale(Value x, Value n, Value shifted) {
  if (target.hasScale && type.getNumElements() == 16) {
    // All lanes, rounded as usual.
    Value mask = arith::ConstantOp::create(b, b.getI16IntegerAttr(-1));
    Value rounding = arith::ConstantOp::create(b, b.getI32IntegerAttr(4));
    return LLVM::CallIntrinsicOp::create(b, type,
                                         b.getStringAttr("llvm.x86.avx512.mask.scalef.ps.512"),
                                         ValueRange{x, n, number(0), mask, rounding})
        .getResults();
  }
  // In two steps, since neither 2^128 nor 2^-149 is a usual number.
  Value whole = arith::SubIOp::create(b, bits(shifted), integer(kMagicBits));
  Value half = arith::ShRSIOp::create(b, whole, integer(1));
  auto power = [&](Value exponent) {
    Value biased = arith::AddIOp::create(b, exponent, integer(127));
    return fromBits(arith::ShLIOp::create(b, biased, integer(23)));
  };
  return mul(mul(x, power(half)), power(arith::SubIOp::create(b, whole, half)));
}

/// 2^n * exp(r) with n whole and |r| <= ln(2) / 2; the polynomial is that of Cephes' expf.
Value Formula::exp(Value x) {
  // Beyond these bounds, scaling gives infinity and 0.
  x = clamp(x, -104.0, 89.0);
  // In the sum, the low bits of the significand are n.
  Value magic = number(kMagic);
  Value shifted = fma(x, number(1.44269504088896341), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, number(-0.693359375), x);
  r = fma(n, number(2.12194440e-4), r);
  Value p = polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2,
                           1.6666665459e-1, 5.0000001201e-1});
  p = add(fma(p, mul(r, r), r), number(1));
  return scale(p, n, shifted);
}

/// 1 - 2 / (exp(2|x|) + 1) with the sign of x; near 0, where that loses digits, the polynomial of
/// Cephes' tanhf.
Value Formula::tanh(Value x) {
  Value size = abs(x);
  Value quotient = arith::DivFOp::create(b, number(2), add(exp(add(size, size)), number(1)));
  Value large = math::CopySignOp::create(b, sub(number(1), quotient), x);
  Value square = mul(x, x);
  Value p = polynomial(square, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2,
                                1.33314422036e-1, -3.33332819422e-1});
  return select(size, 0.625, fma(mul(p, square), x, x), large);
}

/// 1 - exp(p(|x|)) with the sign of x, and a polynomial near 0; both from N. Juffa
/// (https://stackoverflow.com/a/35148199).
Value Formula::erf(Value x) {
  Value size = abs(x), square = mul(x, x);
  Value p = fma(number(-1.72853470e-5), size, number(3.83197126e-4));
  Value low = fma(number(-3.88396438e-3), size, number(2.42546219e-2));
  p = fma(p, square, low);
  for (double coefficient : {-1.06777877e-1, -6.34846687e-1, -1.28717512e-1})
    p = fma(p, size, number(coefficient));
  p = fma(p, size, arith::NegFOp::create(b, size));
  Value large = math::CopySignOp::create(b, sub(number(1), exp(p)), x);
  Value near = polynomial(square, {-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1,
                                   -3.76125336e-1, 1.28379166e-1});
  return select(size, 0.927734375, fma(near, x, x), large);
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
  // Of negative numbers and NaN.
  return choose(P::UGE, 0, choose(P::UNO, 0, x, result),
                number(std::numeric_limits<double>::quiet_NaN()));
}

/// What the C library computes: `name` for f64, with an f behind it for f32.
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

void cleave::codegen::lowerVectorMath(ModuleOp module, const CpuTarget &target) {
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
