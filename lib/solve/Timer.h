//===- Timer.h - time limits and signals of the solvers' tools -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_TIMER_H
#define CLEAVE_LIB_SOLVE_TIMER_H

#include "lib/support/Error.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>

namespace cleave::solve {

/// Set by SIGINT and SIGTERM after stopOnSignal(): what was found so far is to be written.
inline std::atomic<bool> isSignalled = false;
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers may set it");

inline void stopOnSignal() {
  std::signal(SIGINT, [](int) { isSignalled = true; });
  std::signal(SIGTERM, [](int) { isSignalled = true; });
}

/// Runs from its construction on.
class Timer {
public:
  using Clock = std::chrono::steady_clock;

  /// Seconds as a user wrote them.
  llvm::Error setLimit(llvm::StringRef text) {
    double value;
    if (text.getAsDouble(value) || !std::isfinite(value) || !(value > 0) || value > 1e6)
      return makeError("--time-limit: expected seconds above 0 and at most 1000000, found '{0}'",
                       text);
    limit = value;
    return llvm::Error::success();
  }
  double getLimit() const { return limit; }
  double getSeconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  Clock::time_point getStart() const { return start; }
  Clock::time_point getDeadline() const {
    return start +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit));
  }
  /// Whether less than `reserve` of the limit is left, or a signal came.
  bool isOver(double reserve) const { return isSignalled || getSeconds() >= limit * (1 - reserve); }

private:
  Clock::time_point start = Clock::now();
  double limit = 60;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_TIMER_H
