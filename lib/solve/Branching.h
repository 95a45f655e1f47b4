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

  /// Bounds the most promising cases, so many of them side by side on as many threads, looks for
  /// solutions, divides them. Returns false where no case is open.
  bool step(unsigned workers, llvm::function_ref<bool()> isStopped);
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
    unsigned node = 0;
    /// Of the model's choices, by which it is divided.
    std::vector<unsigned> choices;
    double score = 0;
  };
  /// A case that a thread works on; what it finds is taken over by one thread, in order.
  struct Task {
    Open entry;
    unsigned worker;
    /// A known solution's cost when the work began.
    double target;
    std::unique_ptr<Part> part;
    std::shared_ptr<const Dual::State> state;
    /// By node of the model, once the case has its bound.
    std::vector<std::vector<unsigned>> left;
    std::optional<Division> division;
    /// Of its two sides; nothing where no sweep gave a bound.
    std::shared_ptr<const Dual::State> sides[2];
    uint64_t sweeps = 0;
  };

  bool propagate(std::vector<std::vector<unsigned>> &left) const;
  void findPoints(Part &part, std::vector<int64_t> &used, std::vector<unsigned> &firstPoint) const;
  /// Nothing where no choices are left.
  std::unique_ptr<Part> makePart(std::vector<std::vector<unsigned>> left,
                                 const Dual::State &state) const;
  std::vector<std::vector<unsigned>> getLeft(unsigned number) const;
  std::shared_ptr<const Dual::State> getState(const Part &part) const;
  std::vector<Division> findDivisions(const Part &part, double room) const;
  static void inParallel(llvm::MutableArrayRef<Task> tasks, llvm::function_ref<void(Task &)> work);
  void bound(Task &task, llvm::function_ref<bool()> isStopped) const;
  void findSolutions(Search &search, const Part &part, const Dual::State &state) const;
  void chooseDivision(Task &task, llvm::function_ref<bool()> isStopped) const;
  void keepSolution(const Search &search);
  void raise(unsigned number, const Dual::State &state);
  void divide(Task &task);
  Open takeNext();
  double target() const;

  const Problem &whole;
  const Model &model;
  const Problem &problem;
  /// By edge: where the messages of its two ends begin.
  std::vector<std::pair<size_t, size_t>> messageOffsets;
  /// Edges with forbidden pairs.
  std::vector<unsigned> constraints;
  uint64_t seed;
  /// By worker, the first of them from the start.
  std::vector<std::unique_ptr<Search>> searches;
  std::optional<Cases> cases;
  std::vector<Open> open;
  std::optional<Cost> upper;
  std::optional<Assignment> best;
  uint64_t sweeps = 0, steps = 0;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_BRANCHING_H
