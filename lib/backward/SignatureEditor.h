//===- SignatureEditor.h - many changes to a function's signature --*- C++ -*-===//
//
// A `func.func` holds its type and the attributes of its arguments and results as uniqued lists, so
// each change to one of them costs as much as all of them. Passes that change a signature once per
// parameter collect the changes here, and find arguments and results by role without a search.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_SIGNATUREEDITOR_H
#define CLEAVE_LIB_BACKWARD_SIGNATUREEDITOR_H

#include "dialects/train/Program.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave::backward {

/// Changes the arguments and results of one function, of one block. What is added is there at once,
/// as a block argument or an operand of the return; the function's type and attributes follow in
/// `commit`, and so do erasures. Until then numbers of arguments and results stay as they are, and
/// roles are asked of the editor, not of the function.
class SignatureEditor {
public:
  explicit SignatureEditor(mlir::func::FuncOp function);
  SignatureEditor(const SignatureEditor &) = delete;
  ~SignatureEditor() { assert(!hasChanged && "changes are not committed"); }

  mlir::func::FuncOp getFunction() const { return function; }
  mlir::BlockArgument addArgument(mlir::Type type, train::RoleAttr role, mlir::Location loc);
  void addResult(mlir::Value value, train::RoleAttr role);
  /// The argument must have no uses when changes are committed.
  void eraseArgument(mlir::BlockArgument argument);
  void eraseResult(unsigned index);

  /// The argument with a role of this kind and name, or null.
  mlir::BlockArgument findArgument(train::RoleKind kind, mlir::StringAttr name) const;
  /// The same of results.
  std::optional<unsigned> findResult(train::RoleKind kind, mlir::StringAttr name) const;
  /// Null if it has none.
  train::RoleAttr getRole(mlir::BlockArgument argument) const;

  /// Makes the changes, and takes over types of arguments and returned values that have changed.
  void commit();

private:
  /// Arguments, or results: attributes and roles by number.
  struct Side {
    llvm::SmallVector<mlir::DictionaryAttr> attributes;
    llvm::DenseMap<std::pair<unsigned, mlir::StringAttr>, unsigned> byRole;
    llvm::BitVector erased;

    void add(mlir::DictionaryAttr dictionary);
    void erase(unsigned number);
    std::optional<unsigned> find(train::RoleKind kind, mlir::StringAttr name) const;
    train::RoleAttr getRole(unsigned number) const;
    /// Without what is erased.
    void shrink();
  };

  mlir::func::FuncOp function;
  Side arguments, results;
  bool hasChanged = false;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_SIGNATUREEDITOR_H
