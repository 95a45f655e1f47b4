//===- Executor.h - runs a bound function --------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_EXECUTOR_H
#define CLEAVE_RUNTIME_EXEC_EXECUTOR_H

#include "cleave/Session.h"
#include "runtime/exec/Binder.h"

namespace cleave::runtime {

class DevicePlugin;

/// A function bound for one rank and one frame of microbatches, with the slots of its values.
class Executor {
public:
  /// `arena`: of a function that plans memory.
  Executor(BoundFunction function, Phase phase, const Arena *arena);

  /// The slot of an argument, to be filled before each run.
  c10::IValue &argument(uint32_t index) { return frame.slots[index]; }
  /// What watches a run.
  struct Observers {
    /// Called after each instruction, if set.
    std::function<void(const OpEvent &)> onOp;
    /// Compares what types call equal, if set; the function must be bound for it.
    std::unique_ptr<ReplicationChecker> checker;
    /// For tests of it: flip a bit of what this instruction makes.
    std::optional<size_t> fault;
    /// Shows instructions by name to a profiler, if set.
    const DevicePlugin *names = nullptr;
    /// The device that the function runs on; null for the processor.
    const Device *device = nullptr;
  };

  size_t numInstructions() const { return function.instructions.size(); }
  /// Runs the instructions and moves the function's results into `results`. An error names the op
  /// and its source location; which rank it is, the launcher adds.
  llvm::Error run(std::vector<c10::IValue> &results, const Observers &observers);

  /// Instruction::refresh of all, with the arguments that have been filled.
  void refresh();

  /// Fills planned memory with NaN when all streams have arrived, and before they continue.
  void poison(int64_t offset, int64_t bytes) const;

private:
  void runObserved(Instruction *&current, const Observers &observers);
  void runPlanned(Instruction *&current);
  /// On the stream that the instruction says, where there are several.
  void executeOnStream(Instruction &instruction);
  void injectFault(size_t position);
  void noteLayouts();
  void poisonAfter(size_t position) const;
  /// Empties all slots but the fixed ones.
  void clearFrame();

  BoundFunction function;
  Frame frame;
  Phase phase;
  const Arena *arena;
  /// The strides of the arguments for which the instructions have prepared themselves; used if the
  /// function plans memory. None for what has not been seen yet (an accumulator is empty at first).
  std::vector<std::optional<llvm::SmallVector<int64_t, 4>>> layouts;
  /// Instructions that are not idle; empty if that is not known yet.
  std::vector<Instruction *> busy;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_EXECUTOR_H
