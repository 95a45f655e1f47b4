//===- DType.h - element types as files know them ----------------*- C++ -*-===//
//
// The element types of a program, under their safetensors names, and shape arithmetic that cannot
// overflow.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_DTYPE_H
#define CLEAVE_RUNTIME_IO_DTYPE_H

#include "cleave/Tensor.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave::runtime {

/// Size of one element in bytes.
unsigned byteSize(DType dtype);
/// The name in a safetensors header: "F32", "BF16", "BOOL", ... Complex numbers have names in
/// messages only
/// ("C64"): files hold pairs of reals.
llvm::StringRef getName(DType dtype);
/// The type of the two reals that a complex number is stored as; nullopt for other types.
std::optional<DType> partOf(DType dtype);
/// The complex type of pairs of `part`; nullopt where programs have none.
std::optional<DType> complexOf(DType part);
/// The type a safetensors name stands for; nullopt for names that no program uses, or files.
std::optional<DType> parseDType(llvm::StringRef name);

/// Product of the dimensions; nullopt if a dimension is negative or the product overflows.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> shape);
/// Bytes of a dense tensor; nullopt on overflow.
std::optional<int64_t> countBytes(DType dtype, llvm::ArrayRef<int64_t> shape);
/// `F32 [4, 8]`, for messages.
std::string describe(DType dtype, llvm::ArrayRef<int64_t> shape);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_DTYPE_H
