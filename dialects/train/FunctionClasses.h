//===- FunctionClasses.h - the functions of classes of ranks -------*- C++ -*-===//
//
// What `RankClasses.h` asks of whole programs, for modules that need not be one yet.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_DIALECTS_TRAIN_FUNCTIONCLASSES_H
#define CLEAVE_DIALECTS_TRAIN_FUNCTIONCLASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace cleave::train {

/// The phase functions that the ranks of one class run, by phase and stage.
struct FunctionClass {
  /// Their `train.ranks`.
  mlir::DictionaryAttr ranks;
  llvm::SmallVector<mlir::func::FuncOp> functions;
};

/// The functions of all classes of ranks; none if no function has `train.ranks`. Checks that
/// each rank of the mesh is of exactly one class, and that the functions' phases, signatures and
/// communication fit each other. Emits an error otherwise.
llvm::FailureOr<llvm::SmallVector<FunctionClass, 0>> getFunctionClasses(mlir::ModuleOp module);

/// Whether two types differ at most in the sizes of dimensions that are sharded in both.
bool differInShardsOnly(mlir::Type one, mlir::Type other);

} // namespace cleave::train

#endif // CLEAVE_DIALECTS_TRAIN_FUNCTIONCLASSES_H
