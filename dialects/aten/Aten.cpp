//===- Aten.cpp - registration of the aten dialect -------------------------===//

#include "dialects/aten/Aten.h"
#include "dialects/aten/Derivatives.h"
#include "dialects/aten/ops/Categories.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace cleave::aten;

#include "dialects/aten/AtenDialect.cpp.inc"
#include "dialects/aten/AtenEnums.cpp.inc"
#include "dialects/aten/AtenInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/aten/AtenAttrs.cpp.inc"

void AtenDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/aten/AtenAttrs.cpp.inc"
      >();
#define CATEGORY(NAME) add##NAME##Ops(this);
  CLEAVE_ATEN_CATEGORIES(CATEGORY)
#undef CATEGORY
  claimDerivatives(*this);
}

LogicalResult ComplexAttr::verify(function_ref<InFlightDiagnostic()> emitError, FloatAttr real,
                                  FloatAttr imag) {
  for (FloatAttr part : {real, imag})
    if (!part.getType().isF64())
      return emitError() << "expects parts of type f64, found " << part;
  return success();
}

bool cleave::aten::isTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return false;
  Type element = tensor.getElementType();
  if (auto complex = dyn_cast<ComplexType>(element))
    return complex.getElementType().isF32() || complex.getElementType().isF64();
  if (element.isF16() || element.isBF16() || element.isF32() || element.isF64())
    return true;
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer)
    return false;
  if (integer.isSignless())
    return llvm::is_contained({1u, 8u, 16u, 32u, 64u}, integer.getWidth());
  return integer.isUnsigned() && integer.getWidth() == 8;
}

bool cleave::aten::isScalar(Attribute attribute) {
  if (isa<BoolAttr, ComplexAttr>(attribute))
    return true;
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getType().isSignlessInteger(64);
  auto real = dyn_cast<FloatAttr>(attribute);
  return real && real.getType().isF64();
}
