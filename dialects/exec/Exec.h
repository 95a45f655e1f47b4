//===- Exec.h - the exec dialect ---------------------------*- C++ -*-===//

#ifndef CLEAVE_DIALECTS_EXEC_EXEC_H
#define CLEAVE_DIALECTS_EXEC_EXEC_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mlir {
class PatternRewriter;
} // namespace mlir

namespace cleave::exec {

/// What a stream executes, in order: an event is a place in it.
struct StreamResource : mlir::SideEffects::Resource::Base<StreamResource> {
  llvm::StringRef getName() final { return "exec.stream"; }
};

} // namespace cleave::exec

#include "dialects/exec/ExecDialect.h.inc"
#include "dialects/exec/ExecEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/exec/ExecAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/exec/ExecTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/exec/Exec.h.inc"

#endif // CLEAVE_DIALECTS_EXEC_EXEC_H
