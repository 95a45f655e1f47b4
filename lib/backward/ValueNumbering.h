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
  using OnRepeated = llvm::function_ref<void(mlir::Operation *op, mlir::Operation *earlier)>;

  /// Numbers the values of `function`: equal numbers for the same argument by role, for a value
  /// that an earlier function has saved under the argument's name, and for the results of the same
  /// op on equal operands. Calls `onRepeated` for each op with a result that `earlier` has
  /// computed.
  void add(mlir::func::FuncOp function, OnRepeated onRepeated);
  /// The number of a value of a function that was added.
  unsigned lookup(mlir::Value value) const { return numbers.lookup(value); }

private:
  using Key = std::tuple<const void *, const void *, std::vector<unsigned>>;
  struct Maker {
    mlir::Operation *op;
    unsigned number; ///< of its first result; the others follow
  };

  unsigned numberOf(train::RoleAttr role);
  void addOp(mlir::Operation *op, OnRepeated onRepeated);

  llvm::DenseMap<mlir::Value, unsigned> numbers;
  llvm::DenseMap<std::pair<unsigned, mlir::StringAttr>, unsigned> arguments;
  llvm::DenseMap<mlir::StringAttr, unsigned> saved;
  std::map<Key, llvm::SmallVector<Maker, 1>> makers;
  unsigned next = 1;
};

/// Replaces each op of `function` that repeats an earlier one by that one.
void mergeRepeatedOps(mlir::func::FuncOp function);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_VALUENUMBERING_H
