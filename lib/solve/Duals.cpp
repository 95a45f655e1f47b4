//===- Duals.cpp - one dual, then the other ------------------------------===//

#include "lib/solve/Duals.h"

#include <chrono>
#include <cmath>

using namespace cleave::solve;

/// Searches are the better the better the prices are that they begin with: so sweeps go on until
/// they stall, or for so many.
constexpr uint64_t fewestSweeps = 200;
/// Iterations of the smooth dual, each of which takes as long as so many sweeps, after which the
/// other one has the bound of where it is.
constexpr unsigned smoothAtOnce = 25, sweepsPerSmooth = 8;
/// It is over when so many of these in a row have raised the bound by less than this part of the
/// gap.
constexpr unsigned mostIdle = 4;
constexpr double leastRaise = 2.5e-4;
/// Where it is over, sweeps that add what its temperature gave up.
constexpr unsigned settlingSweeps = 30;

unsigned Duals::raise(double upper, bool isLate, Stop isStopped) {
  if (smooth || dual.isStalled() || (sweeps >= fewestSweeps && isLate))
    return raiseSmoothly(upper, isStopped);
  auto begin = std::chrono::steady_clock::now();
  dual.iterate(upper);
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ++sweeps;
  return 1;
}

unsigned Duals::raiseSmoothly(double upper, Stop isStopped) {
  double before = dual.getBest().bound;
  double gap = std::isfinite(upper) ? upper - before : 0.1 * std::abs(before);
  if (!smooth) {
    stalled = dual.getBest();
    smooth.emplace(problem, memory, dual.getPairCosts(),
                   SmoothDual::Point{dual.getBest().messages, dual.getBest().prices}, gap);
  }
  unsigned made = 0;
  while (made < smoothAtOnce && !isStopped()) {
    smooth->iterate();
    ++made;
  }
  dual.start(smooth->getPoint().messages, smooth->getPoint().prices);
  double raised = dual.settle(0, 2) - before;
  idle = smooth->isCool() && raised < leastRaise * gap ? idle + 1 : 0;
  over = smooth->isCold() || idle >= mostIdle;
  if (over)
    dual.settle(0, settlingSweeps);
  return made * sweepsPerSmooth;
}
