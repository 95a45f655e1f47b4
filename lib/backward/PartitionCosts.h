//===- PartitionCosts.h - what partitions cost, without building them -*- C++ -*-===//
//
// A search tries thousands of partitions of one joint graph. Here ops and values are numbers, and
// a partition is measured by the same walk over the lists of ops that memory::planMemory makes over
// the functions built from them: its peak is that of the functions, to the byte.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_PARTITIONCOSTS_H
#define CLEAVE_LIB_BACKWARD_PARTITIONCOSTS_H

#include "lib/backward/Partition.h"
#include "lib/cost/Device.h"
#include "lib/memory/StepMemory.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/Support/JSON.h"

namespace cleave::backward {

/// How long an op takes, in any unit, and for how long copies to the host run beside it.
struct OpTimes {
  int64_t time = 0, hiding = 0;
};
using TimesOfOp = llvm::function_ref<OpTimes(mlir::Operation *)>;

/// What the peak of a partition is of.
struct StepForm {
  memory::StepMemory memory;
  int64_t microbatches = 1;
  /// After --lower-to-exec: saved values, all gradients, and what else a function needs at its
  /// worst lie apart from each other.
  bool isLowered = false;
  /// Of a pipeline's stage: the most microbatches of it that its rank has in flight, each of which
  /// holds what it saves. Gradients lie in accumulators from the start, which are not counted.
  int64_t inFlight = 0;
  /// Whether saved values may wait in host memory.
  bool mayOffload = false;
  /// What a copy there takes, as a multiple of the same bytes of the device's memory.
  double hostLinkFactor = cost::nominalHostLinkFactor;
};

/// What the functions of a partition need, as memory::planMemory finds it once they are built.
struct FunctionPeaks {
  /// Of values on the heap: while the forward runs, after it, and while the backward runs. Where
  /// the step is not lowered, that is all.
  int64_t forwardBytes = 0, heldBytes = 0, backwardBytes = 0;
  /// Of what the forward takes from another stage: bytes that it saves.
  int64_t savedInputBytes = 0;
  /// Where it is lowered: the arena of both functions, and the frame of a microbatch.
  int64_t arenaBytes = 0, frameBytes = 0;
};

/// Measures the partitions of a graph.
class PartitionCosts {
public:
  PartitionCosts(const JointGraph &graph, const RecomputeModel &model, const StepForm &step,
                 TimesOfOp timesOf);

  /// What may either be saved or be recomputed, in the order of the function: all but what
  /// tags or effects decide, and views, which are recomputed wherever they are needed.
  llvm::ArrayRef<mlir::Value> getChoices() const { return choices; }
  /// What may be offloaded where it is saved, by number; none if nothing may be.
  llvm::ArrayRef<unsigned> getOffloadable() const { return offloadable; }
  /// The bits of `kept`: one for each choice, then one for each of these, then `getLateBit`.
  unsigned countBits() const { return getLateBit() + !offloadable.empty(); }
  /// Whether copies come back right before they are used, and not so early that nothing waits.
  unsigned getLateBit() const { return unsigned(choices.size() + offloadable.size()); }

  struct Costs {
    /// Of the values of all microbatches.
    int64_t peakBytes = 0;
    /// Of what runs twice, and of copies to and from the host.
    int64_t time = 0;
    /// What a microbatch offloads.
    int64_t hostBytes = 0;
  };
  /// A choice that is in `kept` is saved where the backward, or what it recomputes, needs it; what
  /// is saved and has a bit behind those of the choices is offloaded.
  Costs measure(const llvm::BitVector &kept);
  /// Of a pipeline's stage.
  FunctionPeaks measureFunctions(const llvm::BitVector &kept);
  /// The bits of what the last partition that was measured could offload.
  llvm::SmallVector<unsigned> listOffloadable() const;
  Partition getPartition(const llvm::BitVector &kept);
  /// The choices that `partition` saves; of a view, the value whose memory it has.
  llvm::BitVector getKept(const Partition &partition) const;

  unsigned countOps() const { return numOps; }
  /// The graph in numbers, and what the last partition that was listed or measured saves.
  llvm::json::Object toJSON() const;

  // What a search builds networks of.
  enum class Fate : uint8_t {
    There,  ///< an argument of both functions
    Own,    ///< depends on a gradient: only the backward has it
    Saved,  ///< saved where it is needed
    Again,  ///< computed where it is needed
    Choice, ///< either
  };
  Fate getFate(unsigned value) const { return values[value].fate; }
  unsigned getValue(unsigned choice) const { return numbers.lookup(choices[choice]); }
  unsigned getChoice(unsigned value) const { return values[value].choice; }
  int64_t getBytes(unsigned value) const { return values[value].bytes; }
  unsigned countValues() const { return unsigned(values.size()); }
  /// The op that makes a value; kNone for an argument.
  unsigned getOp(unsigned value) const { return values[value].op; }
  llvm::ArrayRef<unsigned> getOperands(unsigned op) const { return ops[op].operands; }
  llvm::ArrayRef<unsigned> getResults(unsigned op) const { return ops[op].results; }
  /// What computing the op in the backward adds: none where the forward does not compute it.
  int64_t getTime(unsigned op) const { return ops[op].isForward ? ops[op].time : 0; }
  /// What the backward's own ops and results need of the forward.
  llvm::ArrayRef<unsigned> getNeeds() const { return needs; }
  static constexpr unsigned kNone = ~0u;

private:
  struct Value {
    unsigned op = kNone;
    Fate fate = Fate::There;
    unsigned choice = kNone;
    /// Its place among what may be offloaded.
    unsigned offload = kNone;
    int64_t bytes = 0;
    /// The operand whose memory it has, in later microbatches and in the first one.
    unsigned shared = kNone, sharedAtFirst = kNone;
    /// An accumulated gradient that becomes the accumulator of a first microbatch if it has memory
    /// of its own.
    bool takesOwn = false;
  };
  struct Op {
    llvm::SmallVector<unsigned, 4> operands;
    llvm::SmallVector<unsigned, 2> results;
    int64_t time = 0, hiding = 0;
    bool isTangent = false, isForward = false;
    /// Whether it is a copy back from the host.
    bool isReload = false;
  };
  struct Result {
    unsigned value;
    bool isHandedOn; ///< to another stage: it does not stay to the end
  };
  /// A copy back from the host: its place in the list of the backward, and the op there.
  struct Reload {
    unsigned offload;
    unsigned place;
    unsigned before = kNone;
  };
  void number(const JointGraph &graph);
  void readOp(const JointGraph &graph, mlir::Operation &op);
  void decideFates(const JointGraph &graph, const RecomputeModel &model);
  void findOffloadable();
  void collect(const llvm::BitVector &kept);
  void need(unsigned value, const llvm::BitVector &kept);
  void computeNeeded(const llvm::BitVector &kept);
  void listForward();
  void addCopies();
  void listReloads();
  void moveReloadsAhead();
  int64_t timeOfCopy(unsigned value) const {
    return static_cast<int64_t>(double(values[value].bytes) * step.hostLinkFactor);
  }
  int64_t timeOfCopies();
  int64_t timeOfWaiting(llvm::ArrayRef<unsigned> list, bool isBackward);
  bool isOffloaded(unsigned value) const {
    return values[value].offload != kNone && offloadMark[values[value].offload] == mark;
  }
  /// The ops that copy what has this place among what may be offloaded.
  unsigned offloadOp(unsigned offload) const { return numOps + 2 * offload; }
  unsigned reloadOp(unsigned offload) const { return numOps + 2 * offload + 1; }
  int64_t measurePeak(bool isFirst);
  int64_t placeApart();
  int64_t countHeld();
  void follow(llvm::ArrayRef<unsigned> list, bool isBackward, bool isFirst);
  void finish(llvm::ArrayRef<Result> results, bool isBackward);
  void run(llvm::ArrayRef<unsigned> list, bool isBackward);
  void release(unsigned root);
  unsigned lookUp(unsigned value, bool isBackward) const;
  unsigned instanceOf(unsigned value, bool isBackward) const {
    return isBackward ? value + countValues() : value;
  }

  const StepForm &step;
  std::vector<Value> values;
  std::vector<Op> ops;
  unsigned numOps = 0; ///< without copies, which are behind them
  llvm::SmallVector<mlir::Value> choices;
  std::vector<unsigned> offloadable;
  llvm::DenseMap<mlir::Value, unsigned> numbers;
  std::vector<mlir::Value> originals;
  std::vector<mlir::Operation *> operations;
  std::vector<unsigned> needs, forwardOps;
  std::vector<Result> forwardResults, backwardResults;

  // The partition at hand. What is saved and which ops each function runs; a mark stands for this
  // partition if it is `mark`.
  unsigned mark = 0;
  bool isLate = false;
  std::vector<unsigned> savedMark, backwardMark, forwardMark, offloadMark, reloadMark;
  /// When what is offloaded has come back.
  std::vector<int64_t> arrivals;
  std::vector<unsigned> saved, backwardList, forwardList, missing;
  std::vector<unsigned> withCopies;
  /// In the order of the uses.
  std::vector<Reload> reloads;
  // Its walk, by value in the forward and then by value in the backward: whose memory it has, the
  // last use, whether it stays or lives, and whether it is counted apart.
  std::vector<unsigned> root;
  std::vector<int> lastUse;
  std::vector<char> stays, lives, isApart;
  int time = 0;
  int64_t live = 0, peak = 0;
  /// The peaks of both functions, in the last walk.
  int64_t forwardPeak = 0, backwardPeak = 0;
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_PARTITIONCOSTS_H
