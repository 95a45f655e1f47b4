//===- SmoothDual.h - bounds where sweeps and subgradients stop -*- C++ -*-===//
//
// The dual of Dual.h is not smooth: sweeps end where no single message raises the bound though
// several together would, and subgradients of prices jump from one choice to another. Here each
// minimum is a soft one, -T log sum exp(-cost / T), so that the bound is smooth, at most T times a
// constant below, and its maximum is where it cannot be raised node by node. The temperature T
// falls as the bound stops to rise (Savchynskyy et al., "Efficient MRF energy minimization via
// adaptive diminishing smoothing", 2012).
//
// An iteration shares out each node's costs evenly among it and its edges, which is the best that
// its messages can be while the others stay (Hazan and Shashua, "Norm-product belief propagation",
// 2010), takes a Newton step of all prices at once, whose system conjugate gradients solve, and
// goes on beyond where that led, in the direction of the last step, unless the bound fell
// (O'Donoghue and Candes, "Adaptive restart for accelerated gradient schemes", 2015).
//
// All in doubles: messages and prices prove what a certificate's check confirms of them, not what
// is computed here.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_SMOOTHDUAL_H
#define CLEAVE_LIB_SOLVE_SMOOTHDUAL_H

#include "lib/solve/MemoryUse.h"
#include "lib/solve/PairCosts.h"

#include <limits>

namespace cleave::solve {

class SmoothDual {
public:
  struct Point {
    /// As of Dual::State.
    std::vector<double> messages, prices;
  };

  /// Starts from there, with messages and prices of all edges and points. `gap` is how far the
  /// bound may be from the best, if that is known.
  SmoothDual(const Problem &problem, const MemoryUse &memory, const PairCosts &pairs, Point start,
             double gap);

  void iterate();
  /// What messages and prices are now.
  const Point &getPoint() const { return last; }
  /// Whether the temperature is a tenth of what it was, or so low that it takes nothing of note
  /// from the bound.
  bool isCool() const { return temperature <= hottest / 10; }
  bool isCold() const { return temperature <= coldest; }

private:
  struct Link {
    unsigned other;
    /// With the other end's choices as rows.
    const double *rows;
    size_t own, toOther;
  };
  llvm::ArrayRef<Link> getLinks(unsigned node) const {
    return llvm::ArrayRef(links).slice(firstLink[node], firstLink[node + 1] - firstLink[node]);
  }
  void setPoint(Point point);
  void share(unsigned node);
  void sweep();
  double softLeast(const double *values, unsigned count) const;
  double computeBound() const;
  /// By point: how much usage exceeds the limit on average.
  void findExcess();
  void multiply(llvm::ArrayRef<double> direction, std::vector<double> &product) const;
  std::vector<double> findStep() const;
  void stepPrices();

  const Problem &problem;
  const MemoryUse &memory;
  std::vector<Link> links;
  std::vector<size_t> firstLink{0};
  double temperature = 0, hottest = 0, coldest = 0;
  /// What of the bound is given up for each unit of temperature, at first.
  double entropy = 0;
  /// Where the next iteration starts; what the last one led to.
  Point present, last;
  double bound = 0, lastBound = -std::numeric_limits<double>::infinity();
  /// Of accelerated gradients: it grows from 1 on, after each restart.
  double momentum = 1;
  std::vector<double> potentials, probabilities, excess, scales, scratch;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_SMOOTHDUAL_H
