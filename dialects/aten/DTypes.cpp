//===- DTypes.cpp - PyTorch's rules for element types ------------------------===//

#include "dialects/aten/DTypes.h"
#include "dialects/aten/Aten.h"

using namespace mlir;
using namespace cleave::aten;

/// 0 bool, 1 integer, 2 float, 3 complex.
static int category(Type dtype) {
  return isBool(dtype) ? 0 : isComplex(dtype) ? 3 : isFloating(dtype) ? 2 : 1;
}

Type cleave::aten::toReal(Type dtype) {
  auto complex = dyn_cast<ComplexType>(dtype);
  return complex ? complex.getElementType() : dtype;
}

/// Half precision has no complex numbers in programs: `f32` holds them.
Type cleave::aten::toComplex(Type dtype) {
  return ComplexType::get(dtype.isF64() ? dtype : Type(Float32Type::get(dtype.getContext())));
}

Type cleave::aten::promoteTypes(Type a, Type b) {
  if (a == b)
    return a;
  if (isComplex(a) || isComplex(b))
    return toComplex(promoteTypes(toReal(a), toReal(b)));
  if (category(a) != category(b))
    return category(a) > category(b) ? a : b;
  unsigned widthA = a.getIntOrFloatBitWidth(), widthB = b.getIntOrFloatBitWidth();
  if (widthA != widthB)
    return widthA > widthB ? a : b;
  // f16 with bf16, i8 with ui8: neither holds the other.
  return category(a) == 2 ? Type(Float32Type::get(a.getContext()))
                          : Type(IntegerType::get(a.getContext(), 16));
}

/// What remains of `lower` next to `higher`, the dtype of operands that take precedence.
static Type combine(Type higher, Type lower) {
  if (!higher || !lower)
    return higher ? higher : lower;
  if (category(higher) == 3)
    return higher;
  if (category(higher) == 2)
    return category(lower) == 3 ? toComplex(higher) : higher;
  if (category(higher) == 0 || category(lower) >= 2)
    return promoteTypes(higher, lower);
  return higher;
}

static Type promoteIfAny(Type a, Type b) {
  return a ? promoteTypes(a, b) : b;
}

Type cleave::aten::resultType(ValueRange tensors, ArrayRef<Attribute> scalars) {
  Type dimensioned, zeroDimensional, numbers;
  for (Value value : tensors) {
    auto tensor = cast<RankedTensorType>(value.getType());
    Type &slot = tensor.getRank() ? dimensioned : zeroDimensional;
    slot = promoteIfAny(slot, tensor.getElementType());
  }
  for (Attribute scalar : scalars)
    if (scalar)
      numbers = promoteIfAny(numbers, typeOfScalar(scalar));
  return combine(dimensioned, combine(zeroDimensional, numbers));
}

Type cleave::aten::toFloating(Type dtype) {
  return isDifferentiable(dtype) ? dtype : Type(Float32Type::get(dtype.getContext()));
}

Type cleave::aten::sumType(Type dtype) {
  return isDifferentiable(dtype) ? dtype : Type(IntegerType::get(dtype.getContext(), 64));
}

Type cleave::aten::typeOfScalar(Attribute scalar) {
  MLIRContext *context = scalar.getContext();
  if (isa<BoolAttr>(scalar))
    return IntegerType::get(context, 1);
  if (isa<FloatAttr>(scalar))
    return Float32Type::get(context);
  if (isa<ComplexAttr>(scalar))
    return ComplexType::get(Float32Type::get(context));
  return IntegerType::get(context, 64);
}
