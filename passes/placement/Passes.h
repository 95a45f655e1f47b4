//===- Passes.h - passes over placements --------------------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_PLACEMENT_PASSES_H
#define CLEAVE_PASSES_PLACEMENT_PASSES_H

#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave::placement {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/placement/Passes.h.inc"

inline void registerPasses() {
  registerPlacementPasses();
}

} // namespace cleave::placement

#endif // CLEAVE_PASSES_PLACEMENT_PASSES_H
