//===- FrameGroups.h - functions that share a microbatch's frame ---*- C++ -*-===//
//
// The functions of a microbatch save values for each other: the forward for its backward, the
// backward-input for the backward-weight. Those of one stage run one after the other in a known
// order, whatever a schedule does with other microbatches in between. So what they save can have
// places in one frame.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_MEMORY_FRAMEGROUPS_H
#define CLEAVE_LIB_MEMORY_FRAMEGROUPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace cleave::exec {

/// Functions in the order in which they run for a microbatch: those of one stage on ranks of one
/// kind, or one that is not part of a microbatch, alone.
struct FunctionGroup {
  llvm::SmallVector<mlir::func::FuncOp, 3> functions;
  /// Whether they are a microbatch's and have a frame, since their order is known: no two have the
  /// same phase.
  bool hasFrame = false;
};

/// All phase functions of the module with one block, in groups.
std::vector<FunctionGroup> findFunctionGroups(mlir::ModuleOp module);

/// The name of the saved value that an argument is, or a result; null for other roles.
mlir::StringAttr getSavedArgument(mlir::func::FuncOp function, unsigned argument);
mlir::StringAttr getSavedResult(mlir::func::FuncOp function, unsigned result);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_FRAMEGROUPS_H
