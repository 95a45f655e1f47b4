//===- LocalStrides.h - whether a local value can be viewed ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLACEMENT_PARTITION_LOCALSTRIDES_H
#define CLEAVE_LIB_PLACEMENT_PARTITION_LOCALSTRIDES_H

#include "lib/aten/Strides.h"

namespace cleave::placement {

/// What communication gives has other strides than the tensor on one device had, and a view that
/// was one there would need a copy here.
class LocalStrides {
public:
  /// Whether the local `value` has to be copied before it is viewed in `shape`, where the global
  /// one had not.
  bool needsCopy(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Whether the local `value`, a whole tensor, lies in memory as the global one, whose strides are
  /// given where they are known.
  bool liesAs(mlir::Value value, const std::optional<aten::Strides> &global);

private:
  bool comesFromCommunication(mlir::Value value);

  aten::StrideInference inference;
  llvm::DenseMap<mlir::Value, bool> communicated;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_PARTITION_LOCALSTRIDES_H
