//===- Explain.h - what the parts of a microbatch do and hold ---------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_EXPLAIN_H
#define CLEAVE_LIB_BACKWARD_EXPLAIN_H

#include "lib/backward/Budget.h"

#include "llvm/Support/JSON.h"

namespace cleave::backward {

/// The functions of a microbatch in parts, in the order in which they run, and what they save.
struct Explanation {
  struct Function {
    std::string phase;
    int64_t ops = 0;
    /// (op name, how many of it are recomputed), most frequent first.
    std::vector<std::pair<std::string, int64_t>> recomputed;
    /// Peak bytes while it runs, without arguments; with what is held from before.
    int64_t peakBytes = 0;
    /// Bytes of saved values that are held when it has returned: on the device, and on the host.
    int64_t heldBytes = 0, hostBytes = 0;
    int64_t numRecomputed() const;
  };
  struct Saved {
    std::string name, type, location;
    /// Of its own memory; 0 if it shares that of an argument or another result.
    int64_t bytes = 0;
    /// Whether it waits in host memory.
    bool isOffloaded = false;
    std::string madeBy;
    std::vector<std::string> takenBy;
  };
  std::vector<Function> functions;
  std::vector<Saved> saved; ///< largest first
  /// Peak of the microbatch as one function, if known.
  std::optional<int64_t> jointPeakBytes;
  /// Where a budget has chosen what is saved.
  std::optional<BudgetReport> budget;

  void print(llvm::raw_ostream &os) const;
  llvm::json::Value toJSON() const;
  /// Emits an error on `op` if the file cannot be written.
  llvm::LogicalResult writeJSON(llvm::StringRef path, mlir::Operation *op) const;
};

Explanation explainProgram(const train::ProgramFunctions &program);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_EXPLAIN_H
