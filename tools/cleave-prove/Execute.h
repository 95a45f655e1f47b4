//===- Execute.h - runs both programs to tell them apart -----------*- C++ -*-===//
//
// What is not proved may be right. It is refuted by a run: cleave-run evaluates both programs on
// the same weights and random inputs, on as many ranks as LOCAL is for, and a value that differs by
// more than rounding explains is a counterexample. A run never proves anything.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_TOOLS_CLEAVE_PROVE_EXECUTE_H
#define CLEAVE_TOOLS_CLEAVE_PROVE_EXECUTE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace cleave::prove {

struct ExecuteOptions {
  std::string global, local; ///< files of the programs
  std::string weights;       ///< safetensors file; empty: the one beside `global`
  std::string inputs; ///< where the random inputs stay, and NAME.states.safetensors beside it;
                      ///< empty: they are removed
  uint64_t seed = 0;
  std::chrono::steady_clock::time_point deadline;
};

/// A value on which the programs differ.
struct Counterexample {
  std::string name;            ///< as in dumps: "loss", "grad.wte.weight"
  std::optional<int64_t> rank; ///< where ranks are compared one by one, the one that has it
  std::vector<int64_t> place;  ///< indices of the element that is furthest off
  std::optional<double> local; ///< its values in the programs; nothing where it is not finite
  std::optional<double> global;
  std::optional<double> relative; ///< max|a-b| / max|b|; nothing: infinite
};

struct Execution {
  std::string notRun; ///< why nothing was run; empty if both programs were
  int64_t ranks = 0;
  int64_t microbatches = 0; ///< of a whole step, of each rank or of all together; else 0
  int64_t batchParts = 1;   ///< ranks have microbatches of so many parts of the batch
  /// Those of a whole step of each rank, where roles divide the batch; else 0.
  int64_t ownMicrobatches() const { return batchParts > 1 ? microbatches : 0; }
  bool hasUpdate = false; ///< updates were run
  /// Values that differ, and turn as much where rounding changes a gradient.
  unsigned numTurning = 0;
  bool isWide = false; ///< all was computed in float64, whatever the programs' types are
  double tolerance = 0;
  unsigned numValues = 0;
  std::vector<Counterexample> counterexamples;
};

/// Runs both programs once. What keeps them from running is no error: it is in `notRun`.
Execution execute(mlir::ModuleOp global, mlir::ModuleOp local, const ExecuteOptions &options);

} // namespace cleave::prove

#endif // CLEAVE_TOOLS_CLEAVE_PROVE_EXECUTE_H
