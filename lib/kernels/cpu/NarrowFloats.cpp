//===- NarrowFloats.cpp - f16 and bf16 by integer arithmetic -----------------===//
//
// The formulas for f16 are those of the FP16 library (M. Dukhan, fp16_ieee_to_fp32_value and
// fp16_ieee_from_fp32_value): exact, and rounded to nearest even.
//
// Where LLVM moves a value of a narrow type between basic blocks, it widens and narrows it again,
// by the very functions that the formulas are there to avoid: so no value keeps such a type.
//
//===----------------------------------------------------------------------===//

#include "lib/kernels/cpu/NarrowFloats.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace {
class Converter {
public:
  Converter(ImplicitLocOpBuilder &b, Type like) : b(b), like(like) {}

  /// The upper half of the bits.
  Value bfloatToFloat(Value narrow) {
    Value bits = arith::ExtUIOp::create(b, shaped(b.getI32Type()), cast(b.getI16Type(), narrow));
    return cast(b.getF32Type(), shiftLeft(bits, 16));
  }

  Value floatToBFloat(Value value) {
    Value bits = cast(b.getI32Type(), value);
    // Half of the last place, less one where the number is even.
    Value odd = conjunction(shiftRight(bits, 16), 1);
    Value rounded = arith::AddIOp::create(b, bits, integer(0x7fff));
    rounded = arith::AddIOp::create(b, rounded, odd);
    Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, value, value);
    rounded = arith::SelectOp::create(b, isNan, integer(0x7fc00000), rounded);
    Value narrow = arith::TruncIOp::create(b, shaped(b.getI16Type()), shiftRight(rounded, 16));
    return cast(b.getBF16Type(), narrow);
  }

  Value halfToFloat(Value half) {
    Value bits = arith::ExtUIOp::create(b, shaped(b.getI32Type()), cast(b.getI16Type(), half));
    Value sign = shiftLeft(conjunction(bits, 0x8000), 16);
    Value magnitude = shiftLeft(conjunction(bits, 0x7fff), 13);
    // The exponent gets the bias of f32; that also makes numbers of what was denormal.
    Value scaled = cast(b.getI32Type(), arith::MulFOp::create(b, cast(b.getF32Type(), magnitude),
                                                              number(0x1p112f)));
    Value infinite = arith::OrIOp::create(b, scaled, integer(0x7f800000));
    Value isInfinite = compare(arith::CmpIPredicate::uge, magnitude, 0x0f800000);
    Value result = arith::SelectOp::create(b, isInfinite, infinite, scaled);
    return cast(b.getF32Type(), arith::OrIOp::create(b, result, sign));
  }

  Value floatToHalf(Value value) {
    Value bits = cast(b.getI32Type(), value);
    Value doubled = arith::AddIOp::create(b, bits, bits);
    Value magnitude = cast(b.getF32Type(), conjunction(bits, 0x7fffffff));
    // Too large becomes infinite; then the sum with a power of two rounds where f16 ends.
    Value base = arith::MulFOp::create(b, magnitude, number(0x1p112f));
    base = arith::MulFOp::create(b, base, number(0x1p-110f));
    Value bias = conjunction(doubled, 0xff000000);
    bias = arith::MaxUIOp::create(b, bias, integer(0x71000000));
    bias = arith::AddIOp::create(b, shiftRight(bias, 1), integer(0x07800000));
    Value rounded =
        cast(b.getI32Type(), arith::AddFOp::create(b, cast(b.getF32Type(), bias), base));
    Value result = arith::AddIOp::create(b, conjunction(shiftRight(rounded, 13), 0x7c00),
                                         conjunction(rounded, 0x0fff));
    Value isNan = compare(arith::CmpIPredicate::ugt, doubled, 0xff000000);
    result = arith::SelectOp::create(b, isNan, integer(0x7e00), result);
    result = arith::OrIOp::create(b, result, conjunction(shiftRight(bits, 16), 0x8000));
    Value narrow = arith::TruncIOp::create(b, shaped(b.getI16Type()), result);
    return cast(b.getF16Type(), narrow);
  }

private:
  Type shaped(Type element) {
    if (auto vector = dyn_cast<VectorType>(like))
      return vector.clone(element);
    return element;
  }
  Value constant(TypedAttr value) {
    if (auto vector = dyn_cast<VectorType>(like))
      value = DenseElementsAttr::get(vector.clone(value.getType()), Attribute(value));
    return arith::ConstantOp::create(b, value);
  }
  Value number(float value) { return constant(b.getF32FloatAttr(value)); }
  Value integer(uint32_t value) { return constant(b.getI32IntegerAttr(int32_t(value))); }
  Value cast(Type element, Value value) {
    return arith::BitcastOp::create(b, shaped(element), value);
  }
  Value conjunction(Value value, uint32_t mask) {
    return arith::AndIOp::create(b, value, integer(mask));
  }
  Value shiftLeft(Value value, uint32_t bits) {
    return arith::ShLIOp::create(b, value, integer(bits));
  }
  Value shiftRight(Value value, uint32_t bits) {
    return arith::ShRUIOp::create(b, value, integer(bits));
  }
  Value compare(arith::CmpIPredicate predicate, Value value, uint32_t bound) {
    return arith::CmpIOp::create(b, predicate, value, integer(bound));
  }

  ImplicitLocOpBuilder &b;
  Type like;
};
} // namespace

static bool isExpanded(Type type, bool hasHalf) {
  Type element = getElementTypeOrSelf(type);
  return element.isBF16() || (element.isF16() && !hasHalf);
}

/// Narrow numbers are loaded, stored and passed on as integers of their bits.
static void retypeNarrowFloats(ModuleOp module, bool hasHalf) {
  Type bits = IntegerType::get(module.getContext(), 16);
  module.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isExpanded(result.getType(), hasHalf)) {
        auto vector = dyn_cast<VectorType>(result.getType());
        result.setType(vector ? Type(vector.clone(bits)) : bits);
      }
  });
  module.walk([](arith::BitcastOp cast) {
    if (cast.getIn().getType() != cast.getType())
      return;
    cast.replaceAllUsesWith(cast.getIn());
    cast.erase();
  });
}

void cleave::kernels::expandNarrowFloats(ModuleOp module, bool hasHalf) {
  module.walk([hasHalf](Operation *op) {
    if (!isa<arith::ExtFOp, arith::TruncFOp>(op))
      return;
    Value operand = op->getOperand(0);
    Type from = getElementTypeOrSelf(operand.getType());
    Type to = getElementTypeOrSelf(op->getResult(0).getType());
    ImplicitLocOpBuilder b(op->getLoc(), op);
    Converter converter(b, operand.getType());
    Value result;
    if (from.isBF16() && to.isF32())
      result = converter.bfloatToFloat(operand);
    else if (from.isF32() && to.isBF16())
      result = converter.floatToBFloat(operand);
    else if (from.isF16() && to.isF32() && !hasHalf)
      result = converter.halfToFloat(operand);
    else if (from.isF32() && to.isF16() && !hasHalf)
      result = converter.floatToHalf(operand);
    else
      return;
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  });
  retypeNarrowFloats(module, hasHalf);
}
