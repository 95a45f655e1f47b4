//===- Tensor.cpp - element types and their names ---------------------------===//

#include "cleave/Tensor.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace cleave::runtime;

namespace {
struct DTypeRow {
  DType dtype;
  llvm::StringLiteral name;
  int64_t width;
};
} // namespace

static constexpr DTypeRow rows[] = {
    {DType::F16, "F16", 2}, {DType::BF16, "BF16", 2}, {DType::F32, "F32", 4},
    {DType::F64, "F64", 8}, {DType::I8, "I8", 1},     {DType::U8, "U8", 1},
    {DType::I16, "I16", 2}, {DType::I32, "I32", 4},   {DType::I64, "I64", 8},
    {DType::Bool, "BOOL", 1}};

int64_t cleave::runtime::byteWidth(DType dtype) { return rows[size_t(dtype)].width; }

llvm::StringRef cleave::runtime::spell(DType dtype) { return rows[size_t(dtype)].name; }

std::optional<DType> cleave::runtime::parseDType(llvm::StringRef spelling) {
  for (const DTypeRow &row : rows)
    if (row.name == spelling)
      return row.dtype;
  return std::nullopt;
}

int64_t TensorType::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::string TensorType::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << spell(dtype) << '[';
  llvm::interleaveComma(shape, os);
  os << ']';
  return text;
}
