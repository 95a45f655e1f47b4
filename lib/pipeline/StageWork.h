//===- StageWork.h - what a program's stages compute and move --------*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEWORK_H
#define CLEAVE_LIB_PIPELINE_STAGEWORK_H

#include "dialects/train/Program.h"
#include "lib/schedule/simulate/ProgramCosts.h"

namespace cleave::pipeline {

/// The work of every stage, for the simulator's cost model: floating-point operations and bytes of
/// each op, what communications over mesh axes send, bytes that cross between stages, and bytes
/// that one microbatch keeps. `axisSizes` says how many ranks lie along axes of size `?`; null
/// stands for 1, for callers that need no times. Fails, with an error at the op, where a size is
/// missing.
mlir::FailureOr<std::vector<simulate::StageWork>>
measureStages(llvm::ArrayRef<train::ProgramFunctions> stages,
              const llvm::StringMap<int64_t> *axisSizes);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEWORK_H
