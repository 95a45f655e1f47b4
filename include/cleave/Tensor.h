//===- Tensor.h - tensor types and views of tensor data ------------*- C++ -*-===//
//
// How data enters and leaves a session. No header of LibTorch or MLIR is needed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TENSOR_H
#define CLEAVE_TENSOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <string>

namespace cleave::runtime {

/// Element types, as `docs/ir.md` has them, in the order in which safetensors sorts tensors (by
/// descending alignment). Complex numbers (C64: two F32, C128: two F64) are stored as pairs of
/// reals.
enum class DType : uint8_t { Bool, U8, I8, I16, F16, BF16, I32, F32, F64, I64, C64, C128 };

/// Element type and shape of a tensor.
struct TensorType {
  DType dtype = DType::F32;
  llvm::SmallVector<int64_t, 4> shape;

  int64_t numElements() const;
  int64_t numBytes() const;
  /// "F32 [4, 8]"
  std::string str() const;
  bool operator==(const TensorType &other) const {
    return dtype == other.dtype && shape == other.shape;
  }
};

/// A tensor's data, contiguous in row-major order, not owned.
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
