//===- RecomputeCurve.h - the least time of recomputing, by what is saved -*- C++ -*-===//
//
// A backward saves what it needs of its forward, or recomputes it. If each saved byte has a
// price, the cheapest choice is a minimum cut. So at each price it is known, without a look at any
// choice, what time and memory cost together at the least: docs/planner.md, Memory budgets.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLAN_RECOMPUTECURVE_H
#define CLEAVE_LIB_PLAN_RECOMPUTECURVE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <vector>

namespace cleave::plan {

/// What a forward makes, as far as its backward may save or recompute it.
struct RecomputeGraph {
  static constexpr unsigned none = ~0u;
  struct Op {
    /// Of recomputing it: of kernels, and of communications.
    double seconds = 0, sent = 0;
    /// Values; what is there anyway is not among them.
    llvm::SmallVector<unsigned, 4> operands;
  };
  struct Value {
    double bytes = 0;
    /// That computes it; none: it can only be saved.
    unsigned op = none;
    /// By the backward.
    bool isNeeded = false;
  };
  std::vector<Op> ops;
  std::vector<Value> values;
};

/// How much a second of what is recomputed counts.
struct RecomputeWeights {
  double kernels = 1, sent = 0;
};

/// By the price of a byte, in seconds: a lower bound of the seconds of what is recomputed, plus
/// the price of what is saved. Concave.
class RecomputeCurve {
public:
  /// Nothing is needed.
  RecomputeCurve() = default;
  explicit RecomputeCurve(const RecomputeGraph &graph, RecomputeWeights weights = {});
  /// At each price no more than any of them.
  static RecomputeCurve leastOf(llvm::ArrayRef<const RecomputeCurve *> curves);

  /// Between two prices that were looked at, what lies on the chord.
  double at(double price) const;
  /// Above it only bytes count.
  double getHighestPrice() const { return points.empty() ? 0 : points.back().price; }
  /// The bytes that are saved at any price.
  double getLeastBytes() const { return leastBytes; }

private:
  struct Point {
    double price, cost;
  };
  /// By rising price.
  std::vector<Point> points;
  double leastBytes = 0;
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_RECOMPUTECURVE_H
