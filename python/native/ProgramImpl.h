//===- ProgramImpl.h - what a program of Python holds --------------*- C++ -*-===//

#ifndef CLEAVE_PYTHON_NATIVE_PROGRAMIMPL_H
#define CLEAVE_PYTHON_NATIVE_PROGRAMIMPL_H

#include "python/native/Program.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

namespace cleave::python {

struct Program::Impl {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// What the module was when a rewrite began; null outside of one.
  mlir::OwningOpRef<mlir::ModuleOp> before;
  /// Ops that Python knows, by number; null for those that are gone. Numbers are never used again.
  std::vector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Operation *, OpId> numbers;

  explicit Impl(const mlir::DialectRegistry &registry)
      // Without threads: those of a pool would be the process's for good.
      : context(registry, mlir::MLIRContext::Threading::DISABLED) {
    context.printOpOnDiagnostic(false);
  }

  /// Another module takes this one's place: no op is known any more.
  void replaceModule(mlir::OwningOpRef<mlir::ModuleOp> other) {
    module = std::move(other);
    numbers.clear();
    std::fill(ops.begin(), ops.end(), nullptr);
  }

  OpId number(mlir::Operation *op);
  llvm::Expected<mlir::Operation *> find(OpId id) const;
  llvm::Expected<mlir::Value> find(const ValueId &id) const;
  ValueId identify(mlir::Value value);
};

} // namespace cleave::python

#endif // CLEAVE_PYTHON_NATIVE_PROGRAMIMPL_H
