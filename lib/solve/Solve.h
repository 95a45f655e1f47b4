//===- Solve.h - solutions and bounds within a time -*- C++ -*-===//
//
// Reduces the problem, raises its bound (Dual.h, then SmoothDual.h) and looks for solutions
// (Search.h) side by side on two threads, and goes through all choices where they are few. At any
// time there is a best solution and a bound; the bound returned is the one that the certificate's
// check confirms.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_SOLVE_H
#define CLEAVE_LIB_SOLVE_SOLVE_H

#include "lib/solve/Certificate.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>

namespace cleave::solve {

using Clock = std::chrono::steady_clock;

/// Problems of at most so many nodes are gone through, if moves allow.
inline constexpr size_t mostToExhaust = 200;

struct Progress {
  double seconds;
  std::optional<Cost> cost;
  /// Confirmed.
  std::optional<Cost> bound;
};

struct SolveOptions {
  uint64_t seed = 1;
  /// The moves of the search. With a number, the result depends on the problem, the seed and it
  /// alone, unless time runs out; without one, the search takes the time there is.
  std::optional<uint64_t> moves;
  Clock::time_point deadline = Clock::time_point::max();
  Clock::time_point start = Clock::now();
  /// Enough is a solution that costs at most this part of itself more than the bound. With it, such
  /// a solution is looked for as soon as there are messages (Squeeze.h).
  std::optional<double> gap;
  /// Where there is time for at least so many sweeps of messages once the bound rises no more,
  /// solutions are divided into cases (Branching.h): fewer would not lead to many cases.
  double sweepsToBranch = 5000;
  /// Set from outside to stop early.
  const std::atomic<bool> *stop = nullptr;
  /// Called now and then.
  std::function<void(const Progress &)> report;
};

struct SolveResult {
  std::optional<Assignment> assignment;
  Cost cost = 0;
  bool hasBound = false;
  Bound bound;
  bool isOptimal() const { return isWithin(0); }
  bool isWithin(double gap) const {
    return assignment && hasBound &&
           static_cast<double>(cost - bound.cost) <= gap * std::abs(static_cast<double>(cost));
  }
};

SolveResult solve(const Problem &problem, const SolveOptions &options);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_SOLVE_H
