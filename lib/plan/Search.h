//===- Search.h - the fastest plan of a space -----------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_SEARCH_H
#define CLEAVE_LIB_PLAN_SEARCH_H

#include "lib/plan/Space.h"
#include "lib/schedule/simulate/Step.h"
#include "lib/solve/Timer.h"

#include <functional>
#include <limits>
#include <tuple>

namespace cleave::plan {

/// A program in stages, as far as schedules and their simulation need it.
struct StagedProgram {
  simulate::ProgramWork work;
  /// Adds the stages' functions of a step to a schedule: unshards, reductions, updates.
  std::function<llvm::Error(schedule::Schedule &)> complete;
};

/// Where the work of plans comes from. Errors say why there is no such plan.
class Programs {
public:
  virtual ~Programs() = default;

  /// Seconds of the kernels of one microbatch, on all stages together, at the least, where `parts`
  /// ranks divide each op.
  virtual double getKernelSeconds(unsigned program, double parts) const = 0;
  /// Bytes of parameters and optimizer states.
  virtual double getStateBytes(unsigned program) const = 0;
  /// The same of the program of this layout, of which more is known.
  virtual llvm::Expected<double> partition(const Layout &layout) = 0;
  virtual llvm::Expected<StagedProgram> stage(const Shape &shape) = 0;
};

/// A plan that was simulated.
struct Candidate {
  Plan plan;
  simulate::Step step;
  /// The lower bound that its schedule had.
  double bound = 0;
  bool fits = true;
};

/// A layout, and how far it was searched.
struct LayoutReport {
  Layout layout;
  enum Kind {
    Open,      ///< the time was over before all of its plans were looked at
    Closed,    ///< no plan of it is faster than the best
    Searched,  ///< all plans were simulated or are slower by their bounds
    TooLarge,  ///< parameters and optimizer states alone do not fit
    Impossible ///< a pass refused
  } kind = Open;
  std::string reason; ///< of the first plan that a pass or a schedule refused
  double bound = 0;   ///< seconds; of its plans that are not simulated
  double memoryBound = 0;
  std::optional<double> best;
};

struct SearchOptions {
  /// Bytes of a device.
  double memory = 0;
  /// Simulates every plan, whatever the bounds say.
  bool isExhaustive = false;
  const solve::Timer *timer = nullptr;
  /// Called with each better plan.
  std::function<void(const Candidate &)> report;
};

struct SearchResult {
  /// Plans that were simulated: those that fit before others, the fastest first.
  std::vector<Candidate> candidates;
  std::vector<LayoutReport> layouts;
  /// No plan of the space that fits simulates below it; infinity if none fits.
  double bound = 0;
  /// Bytes below which no plan of the space fits, where none does in `memory`.
  double memoryBound = 0;
  bool isComplete = false;
  size_t numRefused = 0, numClosed = 0; ///< plans
  /// Plans that simulate below a bound of theirs: there are none, or the bounds are wrong.
  std::vector<std::string> violations;

  const Candidate *getBest() const {
    return candidates.empty() || !candidates.front().fits ? nullptr : &candidates.front();
  }
  /// Of all simulated plans the one that needs least memory.
  const Candidate *getSmallest() const;
};

class Search {
public:
  Search(const Space &space, const cost::Cluster &cluster, Programs &programs,
         const SearchOptions &options)
      : space(space), cluster(cluster), programs(programs), options(options) {}

  SearchResult run();

  /// Simulates one plan, as cleave-sim does the program that the passes make of it.
  llvm::Expected<Candidate> simulate(const Plan &plan);
  /// The bound of a layout before it is partitioned.
  double boundLayout(const Layout &layout) const;

private:
  struct Entry;

  llvm::Expected<Candidate> simulate(const Plan &plan, const StagedProgram &program, double best);
  bool isLarge(unsigned program) const;
  std::tuple<bool, double, bool, int64_t> rankLayout(const Layout &layout) const;
  double boundMemory(const Layout &layout) const;
  double boundShape(const Shape &shape, double seconds) const;
  void searchShape(Entry &entry, const Shape &shape);
  bool open(Entry &entry);
  void searchRest(Entry &entry);
  void searchMemory(std::vector<Entry> &entries);
  void finish(std::vector<Entry> &entries);
  bool isOver() const { return options.timer && options.timer->isOver(0); }

  const Space &space;
  const cost::Cluster &cluster;
  Programs &programs;
  SearchOptions options;
  SearchResult result;
  double best = std::numeric_limits<double>::infinity();
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_SEARCH_H
