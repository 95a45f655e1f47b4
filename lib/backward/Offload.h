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

  /// Has these values copied to host memory as soon as they are made, and back in each function
  /// that takes them: before the last op ahead of the first use that hides the copy, or else, and
  /// if `reloadsLate`, right before that use. What passes a value on passes its host copy on.
  void offload(llvm::function_ref<bool(const Saved &)> select, bool reloadsLate = false);

private:
  llvm::ArrayRef<mlir::func::FuncOp> functions;
  llvm::SmallVector<Saved> saved;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_OFFLOAD_H
