//===- Failures.h - which pass failed, and how often ---------------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_OPT_FAILURES_H
#define CLEAVE_TOOLS_CLEAVE_OPT_FAILURES_H

#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace mlir {
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
  /// Says that what `pass` left did not pass this check.
  void addFailedCheck(llvm::StringRef pass, llvm::StringRef check = "type check");
  /// The last lines of the run.
  void report(llvm::raw_ostream &os) const;

private:
  struct State;
  std::shared_ptr<State> state;
};

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_OPT_FAILURES_H
