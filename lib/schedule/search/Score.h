// What the search minimises, and the best it has found.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_SCORE_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_SCORE_H

#include "lib/schedule/search/Evaluator.h"

#include <limits>

namespace cleave::schedule::search {

struct Objective {
  /// Largest span first (else makespan first); the other one decides among equals.
  bool spanFirst = true;
  /// Solutions with a longer makespan are not accepted as best.
  double makespanLimit = std::numeric_limits<double>::infinity();

  double score(const Evaluator &times) const {
    return spanFirst ? times.largestSpan + 1e-4 * times.makespan
                     : times.makespan + 1e-4 * times.largestSpan;
  }
  /// For local search: the mean span draws the other ranks along.
  double guide(const Evaluator &times) const { return score(times) + 0.1 * times.meanSpan; }
  bool allows(const Evaluator &times) const {
    return times.makespan <= makespanLimit * (1 + 1e-12);
  }
};

struct Solution {
  PassOrder order;
  double score = std::numeric_limits<double>::infinity();
  bool exists() const { return score < std::numeric_limits<double>::infinity(); }

  /// Takes `candidate` over if it is valid, within memory and better. Returns whether it was.
  bool offer(const PassOrder &candidate, Evaluator &evaluator, const Objective &objective) {
    if (!evaluator.fitsMemory(candidate) || !evaluator.run(candidate) ||
        !objective.allows(evaluator) || objective.score(evaluator) >= score)
      return false;
    order = candidate;
    score = objective.score(evaluator);
    return true;
  }
};

/// A small generator whose numbers are the same everywhere (splitmix64).
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t bits() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return double(bits() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  unsigned below(unsigned n) { return unsigned(bits() % n); }
  /// Roughly normal, variance 1: twelve uniforms.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i)
      sum += uniform();
    return sum;
  }

private:
  uint64_t state;
};

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_SCORE_H
