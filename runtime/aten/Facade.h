//===- Facade.h - the part of LibTorch that the executor uses ------*- C++ -*-===//
//
// LibTorch's headers are slow to compile and its calls throw. Only files that include this header
// see either; they are compiled with it as a precompiled header. What throws stays inside them:
// `guarded` turns exceptions into llvm::Error at their boundary.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_FACADE_H
#define CLEAVE_RUNTIME_ATEN_FACADE_H

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>

#include "cleave/Tensor.h"

#include "llvm/Support/Error.h"

namespace cleave::runtime {

/// The first lines of an exception's text that concern the user: without C++ stack traces.
std::string describeException(const std::exception &exception);

/// Runs `body`, which may throw, and returns its failure as an error.
template <typename Body> llvm::Error guarded(Body body) {
  try {
    body();
    return llvm::Error::success();
  } catch (const std::exception &exception) {
    return llvm::createStringError(llvm::inconvertibleErrorCode(), describeException(exception));
  }
}

at::ScalarType toScalarType(DType dtype);
/// The inverse; none for dtypes that programs do not have.
std::optional<DType> toDType(at::ScalarType type);
/// Type of a tensor; none if its dtype is not one of ours.
std::optional<TensorType> typeOf(const at::Tensor &tensor);

/// A contiguous, uninitialised CPU tensor, as eager mode would allocate it.
at::Tensor allocate(const TensorType &type);

/// The data of a contiguous tensor.
TensorRef refTo(const at::Tensor &tensor);

/// Whether this is the only reference to the tensor and its memory, so that it may be overwritten.
inline bool isSoleOwner(const at::Tensor &tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_FACADE_H
