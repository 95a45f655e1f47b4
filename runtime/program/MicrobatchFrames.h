//===- MicrobatchFrames.h - the frames of microbatches in flight *- C++ -*-===//
//
// What the functions of one microbatch save for each other lies in its frame
// (docs/executable.md). Here: how many frames a rank has, where they begin, and which one a
// microbatch has. Known before anything runs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PROGRAM_MICROBATCHFRAMES_H
#define CLEAVE_RUNTIME_PROGRAM_MICROBATCHFRAMES_H

#include "cleave/Session.h"

namespace cleave::runtime {

/// Frames of one rank, those of a stage one after the other.
struct MicrobatchFrames {
  struct Stage {
    /// Bytes of one frame, a multiple of the alignment.
    int64_t frameBytes = 0;
    /// How many microbatches are in flight at most.
    unsigned numSlots = 0;
    /// Where the first frame begins, in bytes after the arena's end.
    int64_t offset = 0;
    /// By microbatch of the step; empty if all have frame 0.
    std::vector<unsigned> slots;
  };
  /// One in a program that is not in stages.
  std::vector<Stage> stages;
  /// Bytes of all frames.
  int64_t bytes = 0;

  unsigned slotOf(int64_t stage, int64_t microbatch) const {
    llvm::ArrayRef<unsigned> slots = stages[stage].slots;
    return slots.empty() ? 0 : slots[microbatch];
  }
};

/// The frames of a rank that runs the microbatches of a step one after the other. Where weight
/// gradients are deferred, all of them are in flight at the end.
MicrobatchFrames planFrames(const Program &program, int64_t microbatches,
                            WeightGradients weightGradients);

/// The frames of the rank at `place` along the pipeline axis, which runs its part of the program's
/// schedule: microbatches that overlap in its list have frames of their own.
MicrobatchFrames planStageFrames(const Program &program, int64_t place);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_MICROBATCHFRAMES_H
