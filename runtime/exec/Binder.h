//===- Binder.h - from a function to instructions ------------------*- C++ -*-===//
//
// Binding happens once: it numbers values, finds each value's last use, looks operators up and
// converts constants. Ops of the aten dialect bind through their interface; the few others have a
// binding function each, registered by op name in `Kernels.h`.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_BINDER_H
#define CLEAVE_RUNTIME_EXEC_BINDER_H

#include "runtime/exec/Arena.h"
#include "runtime/exec/Bucket.h"
#include "runtime/exec/DeadMemory.h"
#include "runtime/exec/PlannedResults.h"
#include "runtime/exec/Replication.h"
#include "runtime/program/ProgramImpl.h"

#include "llvm/ADT/DenseMap.h"

namespace cleave::runtime {

class Device;
class KernelSource;
class RandomStream;
class RankGrid;

/// What instructions refer to while they run; outlives them.
struct Services {
  RankGrid *ranks = nullptr;
  RandomStream *random = nullptr;
  BucketSet *buckets = nullptr;
  /// Whether to note what types call equal.
  bool checksReplication = false;
  Device *device = nullptr;
  /// Where launches find compiled code; without one their kernels' ops run one by one.
  KernelSource *kernels = nullptr;
  /// Where lowered functions have their values.
  const Arena *arena = nullptr;
  /// Where the frame of the microbatch lies that the function being bound is for, in bytes from the
  /// arena's beginning.
  int64_t frame = 0;
  /// For checks: fill planned memory with NaN as soon as it is dead.
  bool poisonsDeadMemory = false;
  const FrameEnds *frameEnds = nullptr;
  /// Whether the device draws random numbers, and has seeds and offsets.
  bool drawsOnDevice = false;
  /// How often a plateau has reduced learning rates; may change between steps.
  const int64_t *rateReductions = nullptr;
  /// Learning rates by parameter group, where they are set from outside; else NaN.
  const std::vector<double> *learningRates = nullptr;
};

/// A bound function of the program, or a kernel's body. Arguments are slots 0 to n-1.
struct BoundFunction {
  std::vector<std::unique_ptr<Instruction>> instructions;
  /// What types call equal on several ranks, where it is to be checked: of the arguments, then of
  /// what each instruction makes.
  std::vector<std::vector<ReplicatedValue>> replicated;
  std::vector<Operand> results;
  uint32_t numArguments = 0;
  uint32_t numSlots = 0;
  /// Whether memory is planned.
  bool isLowered = false;
  /// What it uses of the arena, without frames.
  int64_t arenaBytes = 0;
  /// What is dead after each instruction, where that is to be overwritten; else empty.
  std::vector<std::vector<DeadRange>> dead;
  /// Null if all instructions run on one stream.
  const Device *streams = nullptr;
};

/// Values and lifetimes of the function being bound; what binding functions ask.
class Binder {
public:
  Binder(mlir::FunctionOpInterface function, const Services &services);
  llvm::Expected<BoundFunction> bind();

  /// The use of `value` by the ops being bound; the last one takes it.
  Operand use(mlir::Value value);
  Destination define(mlir::Value value);
  const Services &services() const { return shared; }

  /// Whether the function says where values lie.
  bool isLowered() const { return lowered; }
  /// Where the results of an op in a lowered function lie, all of which are defined.
  std::vector<PlannedResult> planResults(mlir::Operation *op) const;

private:
  /// Ops that one instruction executes: mostly one, several for a batch of optimizer steps.
  using Group = llvm::SmallVector<mlir::Operation *, 1>;

  void groupOps();
  void findLastUses();
  void noteReplicated(mlir::ValueRange values, llvm::StringRef prefix, BoundFunction &bound) const;
  llvm::Expected<std::unique_ptr<Instruction>> bindGroup(llvm::ArrayRef<mlir::Operation *> group);

  mlir::FunctionOpInterface function;
  const Services &shared;
  bool lowered;
  std::vector<Group> groups;
  llvm::DenseMap<mlir::Value, uint32_t> slots;
  /// Index of the last group that uses a value, and how many uses by it are not bound yet.
  struct LastUse {
    size_t group = 0;
    unsigned remaining = 0;
  };
  llvm::DenseMap<mlir::Value, LastUse> lastUses;
  size_t current = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_BINDER_H
