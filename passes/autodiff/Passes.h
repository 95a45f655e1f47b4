//===- Passes.h - differentiation ---------------------------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_AUTODIFF_PASSES_H
#define CLEAVE_PASSES_AUTODIFF_PASSES_H

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave::autodiff {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"

inline void registerPasses() {
  registerAutodiffPasses();
}

} // namespace cleave::autodiff

#endif // CLEAVE_PASSES_AUTODIFF_PASSES_H
