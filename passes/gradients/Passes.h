//===- Passes.h - passes over gradients ---------------------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_GRADIENTS_PASSES_H
#define CLEAVE_PASSES_GRADIENTS_PASSES_H

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave::gradients {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/gradients/Passes.h.inc"

inline void registerPasses() {
  registerGradientsPasses();
}

} // namespace cleave::gradients

#endif // CLEAVE_PASSES_GRADIENTS_PASSES_H
