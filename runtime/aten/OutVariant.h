//===- OutVariant.h - operators that write into given tensors ------*- C++ -*-===//
//
// Most operators have an `out` overload. Of some it is the kernel itself, which writes where it is
// told; of others it was generated: it calls the functional operator and copies, which is worse
// than the functional operator. The dispatcher tells them apart: only the first have a kernel that
// is registered for the device.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_ATEN_OUTVARIANT_H
#define CLEAVE_RUNTIME_ATEN_OUTVARIANT_H

#include "runtime/aten/Facade.h"

namespace cleave::runtime {

enum class OutVariantKind : uint8_t {
  None,    ///< there is no such overload
  Copying, ///< there is one, which computes somewhere else and copies
  Real     ///< there is one with a kernel for the device
};

struct OutVariant {
  OutVariantKind kind = OutVariantKind::None;
  /// The overload, unless there is none: the arguments of the functional one, in their order, then
  /// one tensor for each result.
  std::optional<c10::OperatorHandle> handle;
};

/// The `out` overload of `functional`, and whether its kernel for `key` (CPU, CUDA) writes into the
/// tensors that it is given.
OutVariant findOutVariant(const c10::OperatorHandle &functional,
                          c10::DispatchKey key = c10::DispatchKey::CPU);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_OUTVARIANT_H
