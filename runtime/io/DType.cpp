//===- DType.cpp - element types as files know them -----------------------===//

#include "runtime/io/DType.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace cleave::runtime;

namespace {
struct Entry {
  DType dtype;
  llvm::StringLiteral name;
  unsigned bytes;
};
// Indexed by DType.
constexpr Entry kTypes[] = {
    {DType::Bool, "BOOL", 1}, {DType::U8, "U8", 1},   {DType::I8, "I8", 1},
    {DType::I16, "I16", 2},   {DType::F16, "F16", 2}, {DType::BF16, "BF16", 2},
    {DType::I32, "I32", 4},   {DType::F32, "F32", 4}, {DType::F64, "F64", 8},
    {DType::I64, "I64", 8},   {DType::C64, "C64", 8}, {DType::C128, "C128", 16},
};
} // namespace

unsigned cleave::runtime::byteSize(DType dtype) {
  return kTypes[unsigned(dtype)].bytes;
}

llvm::StringRef cleave::runtime::getName(DType dtype) {
  return kTypes[unsigned(dtype)].name;
}

std::optional<DType> cleave::runtime::parseDType(llvm::StringRef name) {
  for (const Entry &entry : kTypes)
    if (entry.name == name && !partOf(entry.dtype))
      return entry.dtype;
  return std::nullopt;
}

std::optional<DType> cleave::runtime::partOf(DType dtype) {
  if (dtype == DType::C64)
    return DType::F32;
  return dtype == DType::C128 ? std::optional(DType::F64) : std::nullopt;
}

std::optional<DType> cleave::runtime::complexOf(DType part) {
  if (part == DType::F32)
    return DType::C64;
  return part == DType::F64 ? std::optional(DType::C128) : std::nullopt;
}

std::optional<int64_t> cleave::runtime::countElements(llvm::ArrayRef<int64_t> shape) {
  int64_t product = 1;
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0)
      return std::nullopt;
    empty |= size == 0;
    if (size != 0 && llvm::MulOverflow(product, size, product))
      return std::nullopt;
  }
  return empty ? 0 : product;
}

std::optional<int64_t> cleave::runtime::countBytes(DType dtype, llvm::ArrayRef<int64_t> shape) {
  std::optional<int64_t> elements = countElements(shape);
  int64_t bytes;
  if (!elements || llvm::MulOverflow(*elements, int64_t(byteSize(dtype)), bytes))
    return std::nullopt;
  return bytes;
}

std::string cleave::runtime::describe(DType dtype, llvm::ArrayRef<int64_t> shape) {
  std::string text = (getName(dtype) + " [").str();
  llvm::ListSeparator comma;
  for (int64_t size : shape) {
    text += llvm::StringRef(comma).str();
    text += std::to_string(size);
  }
  return text + "]";
}
