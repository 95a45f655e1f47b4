//===- Operator.cpp - operators of the dispatcher and their arguments --------===//

#include "runtime/aten/Operator.h"
#include "dialects/aten/Aten.h"
#include "runtime/io/Error.h"
#include "runtime/program/ProgramImpl.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace cleave::runtime;

llvm::Expected<c10::OperatorHandle> cleave::runtime::findOperator(llvm::StringRef name,
                                                                  c10::DispatchKey key) {
  auto [base, overload] = name.split('.');
  std::optional<c10::OperatorHandle> handle =
      c10::Dispatcher::singleton().findSchema({base.str(), overload.str()});
  bool isOfTorch = name.starts_with("aten::") || name.starts_with("prims::");
  if (!handle && isOfTorch)
    return makeError("this LibTorch has no operator '" + name + "'");
  if (!handle)
    return makeError("no library registers operator '" + name +
                     "'; expected the one that does, by cleave-run --load-library");
  if (!handle->hasComputedKernelForDispatchKey(key))
    return makeError("operator '" + name + "' has no kernel for the " + c10::toString(key));
  return *handle;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static std::optional<c10::IValue> toNumber(Attribute value) {
  if (auto boolean = dyn_cast<BoolAttr>(value))
    return c10::IValue(boolean.getValue());
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return c10::IValue(integer.getInt());
  if (auto real = dyn_cast<FloatAttr>(value))
    return c10::IValue(real.getValueAsDouble());
  if (auto complex = dyn_cast<cleave::aten::ComplexAttr>(value))
    return c10::IValue(c10::complex<double>(complex.getReal().getValueAsDouble(),
                                            complex.getImag().getValueAsDouble()));
  return std::nullopt;
}

/// int, SymInt, ScalarType and MemoryFormat all are integers to the dispatcher.
static std::optional<c10::IValue> toInteger(Attribute value) {
  if (auto type = dyn_cast<TypeAttr>(value)) {
    if (!isa<ComplexType>(type.getValue()) && !type.getValue().isIntOrFloat())
      return std::nullopt;
    return c10::IValue(static_cast<int64_t>(toScalarType(toDType(type.getValue()))));
  }
  if (auto text = dyn_cast<StringAttr>(value)) {
    auto format = llvm::StringSwitch<std::optional<c10::MemoryFormat>>(text.getValue())
                      .Case("contiguous_format", c10::MemoryFormat::Contiguous)
                      .Case("preserve_format", c10::MemoryFormat::Preserve)
                      .Case("channels_last", c10::MemoryFormat::ChannelsLast)
                      .Case("channels_last_3d", c10::MemoryFormat::ChannelsLast3d)
                      .Default(std::nullopt);
    if (!format)
      return std::nullopt;
    return c10::IValue(static_cast<int64_t>(*format));
  }
  auto integer = dyn_cast<IntegerAttr>(value);
  if (!integer || isa<BoolAttr>(value))
    return std::nullopt;
  return c10::IValue(integer.getInt());
}

template <typename T, typename Values> static c10::IValue makeList(Values values) {
  c10::List<T> list;
  list.reserve(values.size());
  for (auto value : values)
    list.push_back(T(value));
  return c10::IValue(std::move(list));
}

static std::optional<c10::IValue> toList(Attribute value, const c10::Type &element,
                                         std::optional<int32_t> length) {
  switch (element.kind()) {
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    if (auto ints = dyn_cast<DenseI64ArrayAttr>(value))
      return makeList<int64_t>(ints.asArrayRef());
    // `int[2] stride=1`: one number stands for all.
    if (auto integer = dyn_cast<IntegerAttr>(value); integer && length && !isa<BoolAttr>(value))
      return makeList<int64_t>(std::vector<int64_t>(*length, integer.getInt()));
    return std::nullopt;
  case c10::TypeKind::BoolType:
    if (auto bools = dyn_cast<DenseBoolArrayAttr>(value))
      return makeList<bool>(bools.asArrayRef());
    break;
  case c10::TypeKind::FloatType:
    if (auto floats = dyn_cast<DenseF64ArrayAttr>(value))
      return makeList<double>(floats.asArrayRef());
    break;
  default:
    return std::nullopt;
  }
  // `[]` is read as an empty list of integers, whatever it is meant for.
  auto empty = dyn_cast<DenseI64ArrayAttr>(value);
  if (!empty || !empty.empty())
    return std::nullopt;
  return element.kind() == c10::TypeKind::BoolType ? c10::IValue(c10::List<bool>())
                                                   : c10::IValue(c10::List<double>());
}

static std::optional<c10::IValue> convert(Attribute value, const c10::Type &type,
                                          std::optional<int32_t> length) {
  switch (type.kind()) {
  case c10::TypeKind::OptionalType:
    if (isa<UnitAttr>(value))
      return c10::IValue();
    return convert(value, *type.castRaw<c10::OptionalType>()->getElementType(), length);
  case c10::TypeKind::NumberType:
    return toNumber(value);
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    return toInteger(value);
  case c10::TypeKind::FloatType: {
    std::optional<c10::IValue> number = isa<BoolAttr>(value) ? std::nullopt : toNumber(value);
    if (number && number->isInt())
      return c10::IValue(static_cast<double>(number->toInt()));
    return number && number->isDouble() ? number : std::nullopt;
  }
  case c10::TypeKind::BoolType:
    if (auto boolean = dyn_cast<BoolAttr>(value))
      return c10::IValue(boolean.getValue());
    return std::nullopt;
  case c10::TypeKind::StringType:
    if (auto text = dyn_cast<StringAttr>(value))
      return c10::IValue(text.str());
    return std::nullopt;
  case c10::TypeKind::ListType:
    return toList(value, *type.castRaw<c10::ListType>()->getElementType(), length);
  default:
    return std::nullopt;
  }
}

llvm::Expected<c10::IValue> cleave::runtime::toIValue(Attribute value,
                                                      const c10::Argument &argument) {
  if (std::optional<c10::IValue> converted = convert(value, *argument.type(), argument.N()))
    return *converted;
  std::string found;
  llvm::raw_string_ostream(found) << value;
  return makeError("argument '" + argument.name() + "' expects a value of type " +
                   argument.type()->str() + ", found " + found);
}

llvm::Expected<c10::IValue> cleave::runtime::defaultIValue(const c10::Argument &argument) {
  if (argument.default_value())
    return *argument.default_value();
  if (argument.type()->kind() == c10::TypeKind::OptionalType)
    return c10::IValue();
  return makeError("argument '" + argument.name() + "' is missing and has no default");
}

c10::IValue cleave::runtime::makeTensorList(const c10::Argument &argument, size_t size) {
  const auto *list = argument.type()->castRaw<c10::ListType>();
  if (list && list->getElementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> optionals;
    optionals.resize(size);
    return optionals;
  }
  c10::List<at::Tensor> tensors;
  tensors.resize(size);
  return tensors;
}
