//===- Search.h - the fastest plan of a space -----------------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_SEARCH_H
#define CLEAVE_LIB_PLAN_SEARCH_H

#include "lib/plan/BudgetBound.h"
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

  /// One microbatch, where `parts` ranks divide each op. Of a program that cannot be cut at its
  /// layers only the sum is known.
  virtual const LayerTimes &timeGlobal(unsigned program, int64_t parts) const = 0;
  virtual ProgramBytes getBytes(unsigned program) const = 0;
  /// Bytes of parameters, on all ranks together, that `parts` ranks surely divide where FSDP shards
  /// them, and that a forward gathers: of experts, and of all others.
  struct ShardedBytes {
    double others = 0, experts = 0;
  };
  virtual ShardedBytes getShardedBytes(unsigned program, int64_t parts) const = 0;
  /// One microbatch of this layout, from the program that is partitioned for the layout whose batch
  /// is not divided, of the export with the largest batch; none where that says nothing.
  virtual std::optional<LayerTimes> timeUndivided(const Layout &layout) = 0;
  /// The same from the program in which experts are not shared either, where layers are divided
  /// otherwise as well: the ranks that share experts divide the batch. It serves many layouts, and
  /// knows nothing of rows that are exchanged.
  virtual std::optional<LayerTimes> timeUnshared(const Layout &layout) = 0;
  /// The same of what backwards take that recompute, and of what they keep; empty where that says
  /// nothing.
  virtual LayerTimes::Recomputed recomputeUndivided(const Layout &layout, Recompute recompute) = 0;
  /// The same of the program of this layout, of which more is known.
  virtual llvm::Expected<LayerTimes> partition(const Layout &layout) = 0;
  /// What layers save and recompute costs at the least, by that program if there is one already,
  /// otherwise by the one whose batch is not divided; no layers where that says nothing.
  virtual LayerCurves drawCurves(const Layout &layout) = 0;
  virtual llvm::Expected<StagedProgram> stage(const Shape &shape) = 0;
  /// Stages of few layers, recomputed and split as those of `shape`; null where there are none. For
  /// FSDP of either kind they gather and scatter nothing in a microbatch; otherwise nothing is
  /// sharded over the ranks that divide the batch.
  virtual const StageSamples *sampleStages(const Shape &shape) = 0;
  /// The same for FSDP that gathers in each microbatch, with what it gathers and scatters; null for
  /// any other layout, and where there is one stage.
  virtual const StageSamples *sampleGathering(const Shape &shape) = 0;
  /// What these are at the least, from that program; null where there are none. Nothing is sharded
  /// in them over the ranks that divide the batch.
  virtual const StageSamples *sampleUndivided(const Shape &shape) = 0;
  /// Stages of few layers of this layout, at the least whatever they save and recompute: as those
  /// that recompute nothing, without what either pass may run.
  virtual const StageSamples *sampleAny(const Shape &shape) = 0;
  /// The same from the program of sampleUndivided().
  virtual const StageSamples *sampleAnyUndivided(const Shape &shape) = 0;
  /// A plan with every layer of every stage, equal ones too: what a plan's budget, which is for
  /// its schedule, makes of equal layers may differ.
  virtual llvm::Expected<StagedProgram> stageWhole(const Plan &plan) = 0;
  /// Seconds that this takes, by what was carried out until now.
  virtual double estimateWhole(unsigned program) const = 0;
};

/// A plan that was simulated.
struct Candidate {
  Plan plan;
  simulate::Step step;
  /// The lower bounds that its schedule had.
  double bound = 0, memoryBound = 0;
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
  /// Of how many plans at the most recomputation by a budget is tried.
  unsigned numBudgets = 0;
  /// Whether budgets that offload to the host are tried, too, and whether the plan has to.
  bool offloads = false, mustOffload = false;
  const solve::Timer *timer = nullptr;
  /// Called with each better plan; until one fits, with each that needs less memory.
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
  /// Whether plans fit that are not reported, since they keep nothing in the host's memory.
  bool hasOthers = false;
  /// Plans with a budget that were tried, the seconds of the best that fits, and seconds below
  /// which there is none, whatever its backwards recompute. They are not in the space of `bound`.
  unsigned numBudgets = 0;
  std::optional<double> bestBudget;
  double budgetBound = 0;
  /// Those of them that a pass or a schedule refused, with the budget that it did so at; no more
  /// is tried of such a plan.
  std::vector<std::pair<Plan, std::string>> refusedBudgets;
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
         const SearchOptions &options);
  ~Search();

  SearchResult run();

  /// Simulates one plan, as cleave-sim does the program that the passes make of it.
  llvm::Expected<Candidate> simulate(const Plan &plan);
  /// The same of the whole program. Fails if that is not what `candidate` says, or if its stages
  /// take less than samples of them say; with `isExact`, if they take anything else.
  llvm::Error confirm(const Candidate &candidate, bool isExact);
  /// The bound of a layout before it is partitioned.
  double boundLayout(const Layout &layout) const;
  /// Bytes that some rank of a layout holds at the least.
  double boundMemory(const Layout &layout) const;
  /// What stages of few layers say of a plan; nothing where there are none.
  PlanBound boundPlan(const Plan &plan);
  /// Bytes of a rank of a plan at the least, as far as the layout whose batch is not divided says.
  double boundUndividedMemory(const Plan &plan);

private:
  struct Work;
  struct Entry;
  struct Item;
  class Queue;
  class MemoryQueue;
  class BudgetQueue;

  llvm::Expected<Candidate> simulate(const Plan &plan, const StagedProgram &program, double best);
  std::vector<PlanBound> boundBy(const StageSamples *samples, const Shape &shape) const;
  void refine(Entry &entry, size_t work);
  llvm::Error confirmSamples(const Shape &shape, const simulate::ProgramWork &whole, bool isExact);
  llvm::Error confirmSamples(const Shape &shape, const simulate::ProgramWork &whole,
                             const StageSamples &samples, bool isExact);
  bool isLarge(unsigned program) const;
  std::tuple<bool, double, bool, int64_t> rankLayout(const Layout &layout) const;
  double findRoom(const Layout &layout) const;
  double boundMemory(const Shape &shape, const LayerTimes &times) const;
  void raiseBounds(Entry &entry, const LayerTimes &times);
  void raiseBounds(Work &work, llvm::ArrayRef<PlanBound> schedules);
  void raiseUnshared(Entry &entry);
  void raiseUndivided(Entry &entry);
  void raiseRecomputed(Entry &entry, Recompute recompute);
  void raiseSampled(Entry &entry, size_t work);
  double boundLayers(const Shape &shape);
  void check(const Entry &entry, const LayerTimes &before, const LayerTimes &now);
  bool open(Entry &entry);
  void close(Entry &entry, size_t work);
  void search(Entry &entry, size_t work);
  bool tryLayout(Entry &entry);
  void searchFirst();
  void searchNear();
  void searchRest();
  void searchMemory();
  bool triesBudgets() const;
  void searchBudgets();
  PlanBound measure(const Plan &plan);
  std::vector<std::pair<double, Plan>> guessBudgets(const Entry &entry, Shape shape, bool offloads);
  double boundBudget(const Entry &entry, const Shape &shape) const;
  std::optional<BudgetBound> getBudgetBound(const Entry &entry, const Shape &shape, bool offloads);
  double boundBudgetStages(Entry &entry, const Shape &shape, bool offloads);
  std::vector<double> boundBudgetSchedules(const Entry &entry, const Shape &shape, bool offloads);
  const StageSamples *sampleBudgets(const Entry &entry, const Shape &shape);
  void checkBudget(const Candidate &candidate, const simulate::ProgramWork &work);
  void checkBudgetStages(llvm::StringRef name, const Shape &shape, const StageSamples &samples,
                         const simulate::ProgramWork &work);
  std::vector<std::pair<const Entry *, Shape>> listCutsOfBudgets();
  std::vector<std::pair<double, Plan>> listBudgets();
  bool isKnown(const Plan &plan) const;
  std::optional<double> tryBudget(Plan plan);
  void add(Candidate candidate);
  void finish();
  void sortCandidates();
  /// Whether there is time for no more than the reported plan with all of its layers.
  bool isOver() const;
  /// Seconds of the search; 0 without a timer.
  double now() const { return options.timer ? options.timer->getSeconds() : 0; }

  const Space &space;
  const cost::Cluster &cluster;
  Programs &programs;
  SearchOptions options;
  SearchResult result;
  std::vector<Entry> entries;
  /// The last that simulate() carried out.
  std::optional<std::pair<Shape, StagedProgram>> staged;
  /// The last of which boundPlan() was asked, and boundUndividedMemory(), by schedule.
  std::optional<std::pair<Shape, std::vector<PlanBound>>> bounded, undivided;
  Plan bestPlan;
  /// Whether some of the time is for budgets.
  bool keepsTime = false;
  double best = std::numeric_limits<double>::infinity();
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_SEARCH_H
