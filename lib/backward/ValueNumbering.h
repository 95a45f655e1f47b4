//===- ValueNumbering.h - which values are equal in any run --------*- C++ -*-===//
//
// Global value numbering over functions that run one after another on the same microbatch. Unlike
// upstream's CSE it looks through what is noted on ops (checkpoint tags, stages, masks of results)
// and through what functions save for each other.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_VALUENUMBERING_H
#define CLEAVE_LIB_BACKWARD_VALUENUMBERING_H

#include "dialects/train/Program.h"

#include <map>

namespace cleave::backward {

class ValueNumbering {
public:
  /// Gets an op, and the ops before it that have computed one of its results, the first one first.
  using OnRepeated =
      llvm::function_ref<void(mlir::Operation *op, llvm::ArrayRef<mlir::Operation *> earlier)>;

  /// Numbers the values of `function`: equal numbers for the same argument by role, for a value
  /// that an earlier function has saved under the argument's name, and for the results of the same
  /// op on equal operands. Calls `onRepeated` for each op that repeats another, of this function or
  /// an earlier one.
  void add(
      mlir::func::FuncOp function,
      OnRepeated onRepeated = [](mlir::Operation *, llvm::ArrayRef<mlir::Operation *>) {});
  /// The number of a value of a function that was added.
  unsigned lookup(mlir::Value value) const { return numbers.lookup(value); }

private:
  using Key = std::tuple<const void *, const void *, std::vector<unsigned>>;
  /// Ops that are equal but for which of their results they compute.
  struct Producers {
    unsigned number = 0; ///< of their first result; the others follow
    llvm::SmallVector<mlir::Operation *, 1> ops;
  };

  unsigned numberOf(train::RoleAttr role);
  void addOp(mlir::Operation *op, OnRepeated onRepeated);

  llvm::DenseMap<mlir::Value, unsigned> numbers;
  llvm::DenseMap<std::pair<unsigned, mlir::StringAttr>, unsigned> arguments;
  llvm::DenseMap<mlir::StringAttr, unsigned> saved;
  std::map<Key, Producers> producers;
  unsigned next = 1;
};

/// Replaces each op of `function` that repeats an earlier one by that one.
void mergeRepeatedOps(mlir::func::FuncOp function);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_VALUENUMBERING_H
