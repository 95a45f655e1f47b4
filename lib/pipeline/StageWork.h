//===- StageWork.h - what a program's stages compute and move --------*- C++ -*-===//

#ifndef CLEAVE_LIB_PIPELINE_STAGEWORK_H
#define CLEAVE_LIB_PIPELINE_STAGEWORK_H

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/schedule/simulate/ProgramCosts.h"

namespace cleave::pipeline {

struct MeasureOptions {
  /// How many ranks lie along axes of size `?`; null stands for 1, for callers that need no times.
  const llvm::StringMap<int64_t> *axisSizes = nullptr;
  /// The pipeline: its axis of the mesh, and its ranks if the mesh does not have that axis.
  llvm::StringRef axis = "pp";
  int64_t ranks = 1;
  /// Ops whose work does not count; null: none.
  llvm::function_ref<bool(mlir::Operation *)> isLeftOut = nullptr;
  /// Ops whose results do not count as kept for the backward; null: none.
  llvm::function_ref<bool(mlir::Operation *)> isUnsaved = nullptr;
};

/// The work of every stage, for the simulator's cost model: what each op computes and moves, what
/// communications over mesh axes send, bytes that cross between stages, that one microbatch keeps,
/// and that are there all the time. A program that is not in stages counts as one: what of its
/// microbatch belongs to the backward is the stage's. Fails, with an error at the op, where the
/// size of an axis is missing.
mlir::FailureOr<simulate::ProgramWork> measureStages(llvm::ArrayRef<train::ProgramFunctions> stages,
                                                     const MeasureOptions &options);

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_STAGEWORK_H
