//===- Squeeze.h - a solution that fits, from the best without a limit -*- C++ -*-===//
//
// Where memory does not bind, messages and a few moves find what is best. Where it does, the points
// at which that exceeds the limit get a price, ever higher until what is best at these prices fits.
// Between the last prices at which it does not and the first at which it does, much may be chosen
// either way, by many nodes at once (programs consist of equal layers): from the former, trees
// change one after the other until all fits.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_SQUEEZE_H
#define CLEAVE_LIB_SOLVE_SQUEEZE_H

#include "lib/solve/Dual.h"
#include "lib/solve/Search.h"

#include <cmath>

namespace cleave::solve {

class Squeeze {
public:
  /// Ends early with what costs at most this part of itself more than the bound.
  Squeeze(Dual &dual, Search &search, double limit, double gap,
          llvm::function_ref<bool()> isStopped)
      : dual(dual), search(search), limit(limit), gap(gap), isStopped(isStopped) {}

  /// Leaves the dual at its best state, and the search at its best solution; returns whether it has
  /// any.
  bool run();

private:
  /// What is best at prices.
  struct Probe {
    std::vector<double> prices;
    double cost;
    std::vector<double> usage;
    Assignment assignment;
    bool fits;
  };
  Probe probe(std::vector<double> prices);
  void descend(double price, unsigned rounds);
  bool bracket();
  bool narrow();
  void shrink();
  /// Whether so much is within this part of itself of the bound.
  bool isWithin(double cost, double part) const {
    return cost - dual.getBest().bound <= part * std::abs(cost);
  }
  double getPaid(const Probe &probe, llvm::ArrayRef<double> prices) const;

  Dual &dual;
  Search &search;
  double limit, gap;
  llvm::function_ref<bool()> isStopped;
  /// Where all does not fit, and where it does.
  std::optional<Probe> lower, upper;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_SQUEEZE_H
