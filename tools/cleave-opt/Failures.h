//===- Failures.h - which pass failed, and how often ---------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_FAILURES_H
#define CLEAVE_TOOLS_CLEAVE_OPT_FAILURES_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace mlir {
class Pass;
class PassManager;
} // namespace mlir

namespace cleave {

/// What went wrong in the passes of a run: the first pass that failed, and errors beyond the limit,
/// which are counted and not printed.
class Failures {
public:
  Failures();
  ~Failures();

  /// Watches the passes that `manager` runs.
  void watch(mlir::PassManager &manager);
  /// Says that `check` is not a pass of the user's, but the check of what `pass` left.
  void addCheck(const mlir::Pass *check, llvm::StringRef pass);
  /// The last lines of the run.
  void report(llvm::raw_ostream &os) const;

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_FAILURES_H
