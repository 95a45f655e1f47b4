//===- RankMemory.h - what the ranks of a pipeline hold ------------*- C++ -*-===//
//
// Memory by going through a rank's list: what functions hold for later ones of their microbatch,
// what comes from other stages of the rank until it is used up, what is sent until that is known to
// be complete, the slots of what other ranks send, and the peak inside of each function.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PIPELINE_RANKMEMORY_H
#define CLEAVE_LIB_PIPELINE_RANKMEMORY_H

#include "dialects/train/Program.h"
#include "lib/memory/MemoryPlan.h"
#include "lib/schedule/model/Slots.h"

namespace cleave::pipeline {

/// Bytes that functions take from another stage.
struct TakenBytes {
  int64_t all = 0;
  /// Bytes that the function that takes them also saves for a later one of the microbatch.
  int64_t saved = 0;
  /// Of a message with all of them, whose values begin at aligned addresses.
  int64_t message = 0;

  TakenBytes &operator+=(const TakenBytes &other);
};

/// The values of one message lie one after the other, each from an aligned address on.
int64_t alignInMessage(int64_t bytes);

/// The arguments of a function that have this role: Crossing or CrossingGradient.
TakenBytes countTaken(mlir::func::FuncOp function, train::RoleKind role);

/// One stage's functions of a microbatch, in the order in which they run.
struct StageMemory {
  std::vector<train::Phase> phases;
  std::vector<memory::FunctionPlan> functions;
  /// What comes from the stage before, and from the one after.
  TakenBytes input, gradient;
  /// Of the function that gathers its parameters for several microbatches, if there is one: what
  /// that holds is there until the stage is resharded.
  memory::FunctionPlan unshard;

  const memory::FunctionPlan *find(train::Phase phase) const;
};

/// What unsharding needs; nothing without a function.
memory::FunctionPlan measureUnshard(mlir::func::FuncOp unshard);

/// What a stage's functions of a microbatch need, by a plan of each. What crosses is in the
/// device's memory alone.
StageMemory measureStage(llvm::ArrayRef<mlir::func::FuncOp> functions,
                         memory::Space space = memory::Space::Device);

/// Where a rank puts what it receives.
struct ReceiveMemory {
  /// By slot: as large as the largest message in it.
  std::vector<int64_t> slotBytes;
  /// In the order of the rank's list.
  std::vector<schedule::SlotUse> uses;

  int64_t bytes() const;
};
/// O(n log n) in the rank's actions.
ReceiveMemory planReceives(const schedule::Schedule &program, unsigned rank,
                           llvm::ArrayRef<StageMemory> stages);

struct RankMemory {
  /// Of the values of all microbatches that a rank has in flight, and of gathered parameters.
  int64_t peakBytes = 0;
  /// The most of these values, and the most that it holds of them between two functions.
  int64_t valuePeakBytes = 0, heldBytes = 0;
  /// The most that it holds of gathered parameters.
  int64_t gatheredBytes = 0;
};

/// The list of a rank, prepared to be followed with many sizes of its stages' values.
class RankList {
public:
  /// `program` has sends and receives, and stays as long as the list is used. O(n log n) in the
  /// rank's actions.
  RankList(const schedule::Schedule &program, unsigned rank);

  /// Of all stages; those of other ranks need only have what they take. O(n).
  RankMemory follow(llvm::ArrayRef<StageMemory> stages) const;

private:
  struct Step {
    schedule::Action action;
    /// Of its stage and microbatch.
    unsigned frame = 0;
    /// A send's number; for a computation, where the sends that are complete by then begin and end
    /// in `completed`.
    unsigned begin = 0, end = 0;
  };
  class Walk;
  unsigned getFrame(unsigned stage, unsigned microbatch) const {
    return stagesBefore[stage] * program.numMicrobatches + microbatch;
  }
  bool isHere(unsigned stage) const { return program.topology.rankOf(stage) == rank; }

  const schedule::Schedule &program;
  unsigned rank;
  /// Of receives: where nothing is saved of what a forward is given, and where it is.
  schedule::RankSlots briefSlots, longSlots;
  /// By stage: how many of the rank's come before it.
  std::vector<unsigned> stagesBefore;
  std::vector<Step> steps;
  std::vector<unsigned> completed;
  unsigned numSends = 0, numFrames = 0;
};

} // namespace cleave::pipeline

#endif // CLEAVE_LIB_PIPELINE_RANKMEMORY_H
