//===- ReduceProgram.h - makes a program smaller -------------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_REDUCE_REDUCEPROGRAM_H
#define CLEAVE_TOOLS_CLEAVE_REDUCE_REDUCEPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave {

#define GEN_PASS_DECL
#include "tools/cleave-reduce/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tools/cleave-reduce/Passes.h.inc"

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_REDUCE_REDUCEPROGRAM_H
