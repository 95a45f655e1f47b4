//===- Passes.h - passes that take a microbatch apart --------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_BACKWARD_PASSES_H
#define CLEAVE_PASSES_BACKWARD_PASSES_H

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/backward/Partition.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave::backward {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/backward/Passes.h.inc"

inline void registerPasses() {
  registerBackwardPasses();
}

} // namespace cleave::backward

#endif // CLEAVE_PASSES_BACKWARD_PASSES_H
