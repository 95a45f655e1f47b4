//===- Scalars.cpp - LLVM's arithmetic on bits ----------------------------------------===//

#include "test/unit/lib/kernels/gpu/Scalars.h"
#include "test/unit/lib/kernels/gpu/Memory.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace cleave::gputest;
using llvm::StringRef;
using llvm::Type;

static unsigned widthOf(const Type *type) {
  return type->isPointerTy() ? 64 : type->getPrimitiveSizeInBits().getFixedValue();
}

Bits cleave::gputest::truncateTo(Bits bits, unsigned width) {
  return width >= 64 ? bits : bits & ((Bits(1) << width) - 1);
}

int64_t cleave::gputest::toSigned(Bits bits, unsigned width) {
  return width >= 64 ? int64_t(bits) : int64_t(bits << (64 - width)) >> (64 - width);
}

double cleave::gputest::toDouble(Bits bits, const Type *type) {
  if (type->isDoubleTy())
    return llvm::bit_cast<double>(bits);
  if (type->isFloatTy())
    return llvm::bit_cast<float>(uint32_t(bits));
  const llvm::fltSemantics &semantics =
      type->isBFloatTy() ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf();
  return llvm::APFloat(semantics, llvm::APInt(16, bits)).convertToDouble();
}

Bits cleave::gputest::fromDouble(double value, const Type *type) {
  if (type->isDoubleTy())
    return llvm::bit_cast<uint64_t>(value);
  if (type->isFloatTy())
    return llvm::bit_cast<uint32_t>(float(value));
  bool inexact;
  llvm::APFloat number(value);
  number.convert(type->isBFloatTy() ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                 llvm::APFloat::rmNearestTiesToEven, &inexact);
  return number.bitcastToAPInt().getZExtValue();
}

Bits cleave::gputest::binary(unsigned opcode, Bits x, Bits y, const Type *type) {
  using llvm::Instruction;
  if (type->isFloatingPointTy()) {
    // A float's operation in double, rounded once more, is the float's: twice the digits and more.
    double a = toDouble(x, type), b = toDouble(y, type);
    switch (opcode) {
    case Instruction::FAdd:
      return fromDouble(a + b, type);
    case Instruction::FSub:
      return fromDouble(a - b, type);
    case Instruction::FMul:
      return fromDouble(a * b, type);
    case Instruction::FDiv:
      return fromDouble(a / b, type);
    }
  }
  unsigned width = widthOf(type);
  switch (opcode) {
  case Instruction::Add:
    return truncateTo(x + y, width);
  case Instruction::Sub:
    return truncateTo(x - y, width);
  case Instruction::Mul:
    return truncateTo(x * y, width);
  case Instruction::UDiv:
    return y ? x / y : throw Fault("division by zero");
  case Instruction::URem:
    return y ? x % y : throw Fault("division by zero");
  case Instruction::SDiv:
    return y ? truncateTo(toSigned(x, width) / toSigned(y, width), width)
             : throw Fault("division by zero");
  case Instruction::SRem:
    return y ? truncateTo(toSigned(x, width) % toSigned(y, width), width)
             : throw Fault("division by zero");
  case Instruction::Shl:
    return y < width ? truncateTo(x << y, width) : 0;
  case Instruction::LShr:
    return y < width ? x >> y : 0;
  case Instruction::AShr:
    return truncateTo(toSigned(x, width) >> std::min<Bits>(y, width - 1), width);
  case Instruction::And:
    return x & y;
  case Instruction::Or:
    return x | y;
  case Instruction::Xor:
    return x ^ y;
  }
  throw Fault("unknown instruction " + std::string(llvm::Instruction::getOpcodeName(opcode)));
}

bool cleave::gputest::compare(llvm::CmpInst::Predicate predicate, Bits x, Bits y,
                              const Type *type) {
  using llvm::CmpInst;
  if (CmpInst::isFPPredicate(predicate)) {
    double a = toDouble(x, type), b = toDouble(y, type);
    // A predicate's bits say for which of the four outcomes it is true.
    unsigned outcome = std::isnan(a) || std::isnan(b) ? 8 : a == b ? 1 : a > b ? 2 : 4;
    return unsigned(predicate) & outcome;
  }
  int64_t a = toSigned(x, widthOf(type)), b = toSigned(y, widthOf(type));
  switch (predicate) {
  case CmpInst::ICMP_EQ:
    return x == y;
  case CmpInst::ICMP_NE:
    return x != y;
  case CmpInst::ICMP_ULT:
    return x < y;
  case CmpInst::ICMP_ULE:
    return x <= y;
  case CmpInst::ICMP_UGT:
    return x > y;
  case CmpInst::ICMP_UGE:
    return x >= y;
  case CmpInst::ICMP_SLT:
    return a < b;
  case CmpInst::ICMP_SLE:
    return a <= b;
  case CmpInst::ICMP_SGT:
    return a > b;
  default:
    return a >= b;
  }
}

/// As the hardware does it: numbers out of range give the nearest integer, NaN gives 0.
static Bits toInteger(double value, unsigned width, bool isSigned) {
  if (std::isnan(value))
    return 0;
  double high = std::ldexp(1.0, isSigned ? width - 1 : width);
  if (value >= high)
    return truncateTo(isSigned ? (Bits(1) << (width - 1)) - 1 : ~Bits(0), width);
  if (value <= (isSigned ? -high : 0.0))
    return isSigned ? Bits(1) << (width - 1) : 0;
  return truncateTo(isSigned ? Bits(int64_t(value)) : Bits(value), width);
}

Bits cleave::gputest::convert(unsigned opcode, Bits x, const Type *from, const Type *to) {
  using llvm::Instruction;
  switch (opcode) {
  case Instruction::Trunc:
    return truncateTo(x, widthOf(to));
  case Instruction::ZExt:
  case Instruction::PtrToInt:
  case Instruction::IntToPtr:
  case Instruction::AddrSpaceCast:
    return truncateTo(x, widthOf(to));
  case Instruction::SExt:
    return truncateTo(toSigned(x, widthOf(from)), widthOf(to));
  case Instruction::FPExt:
  case Instruction::FPTrunc:
    return fromDouble(toDouble(x, from), to);
  case Instruction::UIToFP:
    return to->isFloatTy() ? llvm::bit_cast<uint32_t>(float(x)) : fromDouble(double(x), to);
  case Instruction::SIToFP: {
    int64_t value = toSigned(x, widthOf(from));
    return to->isFloatTy() ? llvm::bit_cast<uint32_t>(float(value)) : fromDouble(double(value), to);
  }
  case Instruction::FPToUI:
    return toInteger(toDouble(x, from), widthOf(to), false);
  case Instruction::FPToSI:
    return toInteger(toDouble(x, from), widthOf(to), true);
  }
  throw Fault("unknown conversion " + std::string(llvm::Instruction::getOpcodeName(opcode)));
}

/// Of two numbers: the one that is none loses (`fmax`), or wins.
static double extreme(double a, double b, bool greatest, bool nanWins) {
  if (std::isnan(a) || std::isnan(b))
    return nanWins ? std::nan("") : std::isnan(a) ? b : a;
  if (a == b)
    return std::signbit(a) == greatest ? b : a;
  return (a > b) == greatest ? a : b;
}

Bits cleave::gputest::intrinsic(StringRef name, llvm::ArrayRef<Bits> x, const Type *type,
                                const Type *operandType) {
  name.consume_front("llvm.");
  bool ofNvvm = name.consume_front("nvvm.");
  // Types, and how approximate it may be, are no part of what it computes here.
  StringRef base = name.split('.').first;
  unsigned width = widthOf(operandType);
  auto real = [&](unsigned i) { return toDouble(x[i], operandType); };
  auto give = [&](double value) { return fromDouble(value, type); };
  if (operandType->isFloatingPointTy()) {
    if (base == "fma" || base == "fmuladd")
      return operandType->isFloatTy()
                 ? give(std::fma(float(real(0)), float(real(1)), float(real(2))))
                 : give(std::fma(real(0), real(1), real(2)));
    if (base == "fabs")
      return give(std::fabs(real(0)));
    if (base == "sqrt")
      return give(std::sqrt(real(0)));
    if (base == "ex2" || base == "exp2")
      return give(std::exp2(real(0)));
    if (base == "lg2" || base == "log2")
      return give(std::log2(real(0)));
    if (base == "rcp")
      return give(1 / real(0));
    if (base == "floor")
      return give(std::floor(real(0)));
    if (base == "ceil")
      return give(std::ceil(real(0)));
    if (base == "trunc")
      return give(std::trunc(real(0)));
    // NVVM's "round" is the hardware's, to even.
    if (base == "rint" || base == "nearbyint" || base == "roundeven" || (ofNvvm && base == "round"))
      return give(std::nearbyint(real(0)));
    if (base == "copysign")
      return give(std::copysign(real(0), real(1)));
    if (base == "maxnum" || base == "fmax")
      return give(extreme(real(0), real(1), true, false));
    if (base == "minnum" || base == "fmin")
      return give(extreme(real(0), real(1), false, false));
    if (base == "maximum")
      return give(extreme(real(0), real(1), true, true));
    if (base == "minimum")
      return give(extreme(real(0), real(1), false, true));
    if (base == "saturate")
      return give(std::fmin(std::fmax(real(0), 0.0), 1.0));
    if (base == "add")
      return give(real(0) + real(1));
    if (base == "mul")
      return give(real(0) * real(1));
    if (base == "div")
      return give(real(0) / real(1));
    if (base == "d2i") // .hi, .lo: words of a double
      return name.contains(".hi") ? x[0] >> 32 : truncateTo(x[0], 32);
    if (base == "f2i" || base == "d2ll" || base == "f2ll" || base == "fptosi") {
      double value = name.contains(".rn") ? std::nearbyint(real(0)) : std::trunc(real(0));
      return toInteger(value, widthOf(type), true);
    }
    if (base == "is" || name.starts_with("is.fpclass")) {
      // Only what libdevice asks: classes 0x1 and 0x2 are NaNs, 0x4 and 0x200 infinities.
      double value = real(0);
      unsigned mask = x[1];
      bool isNan = std::isnan(value) && (mask & 3);
      bool isInf = std::isinf(value) && (mask & (value < 0 ? 4 : 0x200));
      if (mask & ~0x207u)
        throw Fault("is.fpclass of other classes than NaN and infinity");
      return isNan || isInf;
    }
  } else {
    int64_t a = toSigned(x[0], width);
    int64_t b = x.size() > 1 ? toSigned(x[1], width) : 0;
    if (base == "smax")
      return truncateTo(std::max(a, b), width);
    if (base == "smin")
      return truncateTo(std::min(a, b), width);
    if (base == "umax")
      return std::max(x[0], x[1]);
    if (base == "umin")
      return std::min(x[0], x[1]);
    if (base == "usub") // saturating
      return x[0] > x[1] ? x[0] - x[1] : 0;
    if (base == "abs")
      return truncateTo(a < 0 ? -a : a, width);
    if (base == "fshl" || base == "fshr") {
      unsigned by = x[2] % width;
      if (by == 0)
        return base == "fshl" ? x[0] : x[1];
      return base == "fshl" ? truncateTo(x[0] << by | x[1] >> (width - by), width)
                            : truncateTo(x[0] << (width - by) | x[1] >> by, width);
    }
    if (base == "ctlz")
      return x[0] == 0 ? width : llvm::countl_zero(x[0]) - (64 - width);
    if (base == "lohi") // of a double
      return truncateTo(x[0], 32) | x[1] << 32;
  }
  throw Fault(("unknown intrinsic llvm." + llvm::Twine(ofNvvm ? "nvvm." : "") + name).str());
}
