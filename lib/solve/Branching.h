//===- Branching.h - cases by how much memory nodes use -*- C++ -*-===//
//
// Where a few large nodes decide what fits, prices of memory leave a gap that no price closes: half
// of a node is cheaper than any whole one. Branch and bound divides the solutions by the choices of
// one node after the other, those that use much and those that use little, and bounds each case by
// messages and prices of its own, which start from those of the case that was divided. The most
// promising case comes first. What its messages say is made a solution, and improved by moves:
// cases lead the search to places that heat does not.
//
// Bounds are those that Cases confirmed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_BRANCHING_H
#define CLEAVE_LIB_SOLVE_BRANCHING_H

#include "lib/solve/Cases.h"
#include "lib/solve/Model.h"
#include "lib/solve/Search.h"

#include <memory>

namespace cleave::solve {

class Branching {
public:
  Branching(const Problem &whole, const Model &model, uint64_t seed);
  /// Begins with all solutions and these messages and prices.
  void start(const Dual::State &state);
  bool isStarted() const { return cases.has_value(); }
  /// Whether the certificate on which cases rest holds.
  bool isValid() const { return cases && cases->isValid(); }
  /// A solution that is known.
  void setUpper(Cost cost, llvm::ArrayRef<unsigned> assignment);

  /// Bounds the most promising case, looks for solutions, divides it. Returns false where no case
  /// is open.
  bool step(llvm::function_ref<bool()> isStopped);
  /// Sweeps of messages so far.
  uint64_t getSweepCount() const { return sweeps; }
  uint64_t getStepCount() const { return steps; }

  /// Of what is valid: no solution costs less; nothing where there is none.
  std::optional<Cost> getBound() const { return cases->getBound(); }
  /// The best solution found, of the model; nothing where that is the one that was known.
  const std::optional<Assignment> &getBest() const { return best; }

private:
  /// What is left of a case, without nodes that have no choice, and its messages.
  struct Part;
  struct Open {
    unsigned number;
    /// By which the most promising is chosen.
    double bound;
    /// By edge and choice of the model, and by point.
    std::shared_ptr<const Dual::State> state;
  };
  struct Division {
    unsigned node;
    /// Of the model's choices, by which it is divided.
    std::vector<unsigned> choices;
    double score;
  };

  bool propagate(std::vector<std::vector<unsigned>> &left) const;
  void findPoints(Part &part, std::vector<int64_t> &used, std::vector<unsigned> &firstPoint) const;
  /// Nothing where no choices are left.
  std::unique_ptr<Part> makePart(std::vector<std::vector<unsigned>> left,
                                 const Dual::State &state) const;
  std::vector<std::vector<unsigned>> getLeft(unsigned number) const;
  std::shared_ptr<const Dual::State> getState(const Part &part) const;
  std::vector<Division> findDivisions(const Part &part, double room) const;
  void findSolutions(const Part &part, const Dual::State &state);
  void divide(unsigned number, const Part &part, std::shared_ptr<const Dual::State> state,
              llvm::function_ref<bool()> isStopped);
  double target() const;

  const Problem &whole;
  const Model &model;
  const Problem &problem;
  /// By edge: where the messages of its two ends begin.
  std::vector<std::pair<size_t, size_t>> messageOffsets;
  /// Edges with forbidden pairs.
  std::vector<unsigned> constraints;
  Search search;
  std::optional<Cases> cases;
  std::vector<Open> open;
  std::optional<Cost> upper;
  std::optional<Assignment> best;
  uint64_t sweeps = 0, steps = 0;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_BRANCHING_H
