//===- Passes.h - passes towards the executable form ---------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_LOWERING_PASSES_H
#define CLEAVE_PASSES_LOWERING_PASSES_H

#include "dialects/exec/Exec.h"

#include "mlir/Pass/Pass.h"

namespace cleave::lowering {

#define GEN_PASS_DECL
#include "passes/lowering/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/lowering/Passes.h.inc"

inline void registerPasses() {
  registerLoweringPasses();
}

} // namespace cleave::lowering

#endif // CLEAVE_PASSES_LOWERING_PASSES_H
