//===- Passes.h - passes over communication -----------------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_COMMUNICATION_PASSES_H
#define CLEAVE_PASSES_COMMUNICATION_PASSES_H

#include "dialects/dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave::communication {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/communication/Passes.h.inc"

inline void registerPasses() {
  registerCommunicationPasses();
}

} // namespace cleave::communication

#endif // CLEAVE_PASSES_COMMUNICATION_PASSES_H
