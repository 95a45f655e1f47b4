//===- Offload.h - saved values that wait in host memory --------------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_OFFLOAD_H
#define CLEAVE_LIB_BACKWARD_OFFLOAD_H

#include "dialects/train/Program.h"

namespace cleave::backward {

/// Whether a copy runs beside the op: one that multiplies matrices, and so takes long without much
/// traffic.
bool hidesCopies(mlir::Operation *op);

/// What functions of a microbatch save for each other.
class SavedValues {
public:
  /// `functions`: of one stage, in the order in which they run.
  explicit SavedValues(llvm::ArrayRef<mlir::func::FuncOp> functions);

  struct Saved {
    mlir::StringAttr name;
    mlir::func::FuncOp function;
    unsigned result;
    /// Of the memory that it keeps; 0 if that is there anyway: an argument's, or that of a result
    /// that stays.
    int64_t bytes;
  };
  llvm::ArrayRef<Saved> get() const { return saved; }

  /// The op of a function before which a value is copied back that `firstUse` uses first; null for
  /// right before that.
  using PlaceOfReload =
      llvm::function_ref<mlir::Operation *(mlir::StringAttr name, mlir::Operation *firstUse)>;
  /// Has these values copied to host memory as soon as they are made, and back in each function
  /// that takes them. What passes a value on passes its host copy on.
  void offload(llvm::function_ref<bool(const Saved &)> select, PlaceOfReload placeOf);
  /// The same, copied back before the last op ahead of the first use that hides the copy, or else
  /// right before that use.
  void offload(llvm::function_ref<bool(const Saved &)> select);

private:
  llvm::ArrayRef<mlir::func::FuncOp> functions;
  llvm::SmallVector<Saved> saved;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_OFFLOAD_H
