//===- PartBuilder.h - makes one function of a program out of another -*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_PARTBUILDER_H
#define CLEAVE_LIB_BACKWARD_PARTBUILDER_H

#include "dialects/train/Program.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

namespace cleave::backward {

/// Names for saved values of a module: `h.0.ln_1.native_layer_norm`, after the place in the model
/// and the op. No two are equal, nor equal to one that the program has.
class SavedNames {
public:
  explicit SavedNames(const train::ProgramFunctions &program);
  std::string makeName(mlir::Value value);

private:
  /// Names, and how many others were derived from each.
  llvm::StringMap<unsigned> taken;
};

/// Results by what they are the new values of, to ask of many arguments whether they are tied to
/// one (RoleAttr::isTiedTo).
class TiedResults {
public:
  TiedResults() = default;
  /// The results of `function` at these positions.
  TiedResults(mlir::func::FuncOp function, llvm::ArrayRef<unsigned> results);
  void add(train::RoleAttr result);
  bool contains(train::RoleAttr argument) const;

private:
  using Key = std::tuple<unsigned, mlir::StringAttr, mlir::StringAttr>;
  llvm::DenseSet<Key> keys;
};

/// Builds a function that holds a part of what `from` does. Values are named by those of `from`.
class PartBuilder {
public:
  PartBuilder(mlir::func::FuncOp from, train::Phase phase) : from(from), phase(phase) {}

  /// A value of `from` that another function passes on, saved or crossing.
  void addSaved(mlir::Value value, llvm::StringRef name,
                train::RoleKind kind = train::RoleKind::Saved);
  void addOp(mlir::Operation *op) { ops.push_back(op); }
  /// A result of `from`, with its role.
  void addResult(unsigned index);
  /// A value for a later function.
  void save(mlir::Value value, llvm::StringRef name, train::RoleKind kind = train::RoleKind::Saved);

  /// Arguments of `from`, in their order, that `take` says the function has; `isUsed` tells it
  /// whether the ops or results added so far use the argument. They come before saved values.
  void addArguments(llvm::function_ref<bool(mlir::BlockArgument argument, bool isUsed)> take);

  /// Makes the function before `from`, under a name that is free. Clones ops in the order in which
  /// they were added; `onClone` sees each with its original. Checkpoint tags have been honoured by
  /// then and are dropped.
  mlir::func::FuncOp
  build(llvm::function_ref<void(mlir::Operation *, mlir::Operation *)> onClone = nullptr);

private:
  struct Port {
    mlir::Value value;
    mlir::DictionaryAttr attributes;
  };
  mlir::DictionaryAttr savedAttributes(llvm::StringRef name, train::RoleKind kind);

  mlir::func::FuncOp from;
  train::Phase phase;
  llvm::SmallVector<Port> arguments, results;
  llvm::SmallVector<mlir::Operation *> ops;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_PARTBUILDER_H
