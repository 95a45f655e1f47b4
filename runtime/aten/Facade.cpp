//===- Facade.cpp - types and errors between Cleave and LibTorch -------------===//

#include "runtime/aten/Facade.h"

#include <ATen/ops/empty.h>

#include "llvm/ADT/StringRef.h"

using namespace cleave::runtime;

std::string cleave::runtime::describeException(const std::exception &exception) {
  std::string text;
  if (const auto *error = dynamic_cast<const c10::Error *>(&exception))
    text = error->what_without_backtrace();
  else
    text = exception.what();
  // Some messages carry a backtrace of their own.
  llvm::StringRef shown = llvm::StringRef(text).split("\nException raised from").first;
  return shown.rtrim().str();
}

at::ScalarType cleave::runtime::toScalarType(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return at::kHalf;
  case DType::BF16:
    return at::kBFloat16;
  case DType::F32:
    return at::kFloat;
  case DType::F64:
    return at::kDouble;
  case DType::I8:
    return at::kChar;
  case DType::U8:
    return at::kByte;
  case DType::I16:
    return at::kShort;
  case DType::I32:
    return at::kInt;
  case DType::I64:
    return at::kLong;
  case DType::Bool:
    return at::kBool;
  case DType::C64:
    return at::kComplexFloat;
  case DType::C128:
    return at::kComplexDouble;
  }
  return at::ScalarType::Undefined;
}

std::optional<DType> cleave::runtime::toDType(at::ScalarType type) {
  for (DType dtype : {DType::F32, DType::I64, DType::Bool, DType::BF16, DType::F64, DType::F16,
                      DType::I32, DType::U8, DType::I8, DType::I16, DType::C64, DType::C128})
    if (toScalarType(dtype) == type)
      return dtype;
  return std::nullopt;
}

std::optional<TensorType> cleave::runtime::typeOf(const at::Tensor &tensor) {
  std::optional<DType> dtype = toDType(tensor.scalar_type());
  if (!dtype)
    return std::nullopt;
  return TensorType{*dtype,
                    llvm::SmallVector<int64_t, 4>(tensor.sizes().begin(), tensor.sizes().end())};
}

at::Tensor cleave::runtime::allocate(const TensorType &type) {
  return at::empty(at::IntArrayRef(type.shape.data(), type.shape.size()),
                   at::TensorOptions().dtype(toScalarType(type.dtype)));
}

TensorRef cleave::runtime::refTo(const at::Tensor &tensor) {
  return {*typeOf(tensor), static_cast<char *>(tensor.data_ptr())};
}
