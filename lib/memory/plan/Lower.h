//===- Lower.h - plans memory and streams of functions -------------*- C++ -*-===//

#ifndef CLEAVE_LIB_MEMORY_PLAN_LOWER_H
#define CLEAVE_LIB_MEMORY_PLAN_LOWER_H

#include "lib/memory/plan/Buffers.h"

namespace cleave::exec {

struct LoweringOptions {
  Family target = Family::Cpu;
  /// For cuda: "sm_90".
  std::string chip;
  /// Alignment of all offsets in the arena; a power of two.
  int64_t alignment = 64;
};

class ArenaPlot;

/// What became of a function.
struct LoweringSummary {
  int64_t arenaBytes = 0;
  /// No plan with these lifetimes is smaller.
  int64_t lowerBound = 0;
  /// The same of the frame that the function shares with others.
  int64_t frameBytes = 0, frameLowerBound = 0;
  /// Results by where they lie.
  unsigned inArena = 0, inFrame = 0, inPlace = 0, shared = 0;
  /// Results that are apart, by reason, and their bytes.
  std::array<unsigned, 4> apart = {};
  std::array<int64_t, 4> apartBytes = {};
  unsigned events = 0;
};

/// Decides memory and streams of all functions of the program that have one block, and writes them
/// there. An earlier plan is dropped. Some ops change places: sums of gradients go to where the
/// gradient is made, and optimizer steps together.
/// `plot`, where given, gets pictures of the arena and the frames. `report` is called for each
/// function.
void lowerProgram(mlir::ModuleOp module, const LoweringOptions &options, ArenaPlot *plot,
                  llvm::function_ref<void(mlir::func::FuncOp, const LoweringSummary &)> report);

} // namespace cleave::exec

#endif // CLEAVE_LIB_MEMORY_PLAN_LOWER_H
