//===- Executor.h - runs a bound function --------------------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_EXECUTOR_H
#define CLEAVE_RUNTIME_EXEC_EXECUTOR_H

#include "cleave/Session.h"
#include "runtime/exec/Binder.h"

namespace cleave::runtime {

/// A function bound for one rank, with the frame it runs in.
class Executor {
public:
  Executor(BoundFunction function, Phase phase);

  /// The slot of an argument, to be filled before each run.
  c10::IValue &argument(uint32_t index) { return frame.slots[index]; }
  /// Runs the instructions and moves the function's results into `results`. An error names the op
  /// and its source location; which rank it is, the launcher adds.
  llvm::Error run(std::vector<c10::IValue> &results,
                  const std::function<void(const OpEvent &)> &onOp);

private:
  void runTraced(size_t &position, const std::function<void(const OpEvent &)> &onOp);

  BoundFunction function;
  Frame frame;
  Phase phase;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_EXECUTOR_H
