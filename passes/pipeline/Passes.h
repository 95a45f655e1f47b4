//===- Passes.h - pipeline passes ----------------------------------*- C++ -*-===//

#ifndef CLEAVE_PASSES_PIPELINE_PASSES_H
#define CLEAVE_PASSES_PIPELINE_PASSES_H

#include "dialects/train/Train.h"
#include "lib/backward/Partition.h"
#include "lib/schedule/model/P2P.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cleave::pipeline {

#define GEN_PASS_DECL
#include "passes/pipeline/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/pipeline/Passes.h.inc"

/// Registers the passes of this area by name.
inline void registerPasses() {
  registerPipelinePasses();
}

} // namespace cleave::pipeline

#endif // CLEAVE_PASSES_PIPELINE_PASSES_H
