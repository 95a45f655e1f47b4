//===- Tensor.h - tensor types and views of tensor data ------------*- C++ -*-===//
//
// How data enters and leaves a session. No header of LibTorch or MLIR is needed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TENSOR_H
#define CLEAVE_TENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace cleave::runtime {

/// Element types, as `docs/ir.md` has them.
enum class DType : uint8_t { F16, BF16, F32, F64, I8, U8, I16, I32, I64, Bool };

/// Bytes of one element.
int64_t byteWidth(DType dtype);
/// The safetensors spelling: "F32", "BF16", "BOOL", ...
llvm::StringRef spell(DType dtype);
/// The inverse of `spell`.
std::optional<DType> parseDType(llvm::StringRef spelling);

/// Element type and shape of a tensor.
struct TensorType {
  DType dtype = DType::F32;
  llvm::SmallVector<int64_t, 4> shape;

  int64_t numElements() const;
  int64_t numBytes() const { return numElements() * byteWidth(dtype); }
  /// "F32[4, 8]"
  std::string str() const;
  bool operator==(const TensorType &other) const {
    return dtype == other.dtype && shape == other.shape;
  }
};

/// A tensor's data, contiguous in row-major order, owned by somebody else.
struct TensorRef {
  TensorType type;
  char *data = nullptr;

  llvm::MutableArrayRef<char> bytes() const { return {data, size_t(type.numBytes())}; }
};

/// The same, for reading.
struct ConstTensorRef {
  TensorType type;
  const char *data = nullptr;

  ConstTensorRef() = default;
  ConstTensorRef(TensorType type, const char *data) : type(std::move(type)), data(data) {}
  ConstTensorRef(const TensorRef &ref) : type(ref.type), data(ref.data) {}
  llvm::ArrayRef<char> bytes() const { return {data, size_t(type.numBytes())}; }
};

} // namespace cleave::runtime

#endif // CLEAVE_TENSOR_H
