//===- UnboxedOut.h - out variants called with C++ arguments -------*- C++ -*-===//
//
// A boxed call puts its arguments on a stack and takes them off again, which costs more than a
// small kernel. Operators of the most frequent signatures are called as C++ code calls them.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_UNBOXEDOUT_H
#define CLEAVE_RUNTIME_ATEN_UNBOXEDOUT_H

#include "runtime/aten/Facade.h"

namespace cleave::runtime {

class UnboxedOut {
public:
  static constexpr size_t kMaxTensors = 3, kMaxScalars = 2;

  /// For an overload that takes one to three tensors, then up to two numbers, then the tensor that
  /// it writes; null for others.
  static std::unique_ptr<UnboxedOut> create(const c10::OperatorHandle &out);
  virtual ~UnboxedOut() = default;

  virtual void call(const at::Tensor *const *tensors, const c10::Scalar *scalars,
                    at::Tensor &out) const = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_UNBOXEDOUT_H
