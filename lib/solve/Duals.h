//===- Duals.h - one dual, then the other -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_DUALS_H
#define CLEAVE_LIB_SOLVE_DUALS_H

#include "lib/solve/Dual.h"
#include "lib/solve/SmoothDual.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace cleave::solve {

/// The bound of a problem: by sweeps until they stall, then by the smooth dual, which is slower at
/// first and goes further.
class Duals {
public:
  using Stop = llvm::function_ref<bool()>;

  Duals(const Problem &problem, const MemoryUse &memory)
      : problem(problem), memory(memory), dual(problem, memory) {}

  /// The one whose state is the best of both.
  Dual &getDual() { return dual; }
  const Dual::State &getBest() const { return dual.getBest(); }

  /// A step of the one whose turn it is; returns for how many sweeps it took as long. `upper` is
  /// the cost of a solution, or infinite. `isLate`: sweeps have had enough of the time.
  unsigned raise(double upper, bool isLate, Stop isStopped);
  /// Whether neither raises the bound any more.
  bool isOver() const { return over; }
  /// Where sweeps stalled, if they did.
  const Dual::State &getStalled() const { return stalled ? *stalled : dual.getBest(); }
  double getSecondsPerSweep() const { return sweeps ? seconds / static_cast<double>(sweeps) : 0; }

private:
  unsigned raiseSmoothly(double upper, Stop isStopped);

  const Problem &problem;
  const MemoryUse &memory;
  Dual dual;
  /// Of `dual`, and the seconds that they took.
  uint64_t sweeps = 0;
  double seconds = 0;
  std::optional<SmoothDual> smooth;
  std::optional<Dual::State> stalled;
  unsigned idle = 0;
  bool over = false;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_DUALS_H
