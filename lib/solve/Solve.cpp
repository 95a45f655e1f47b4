//===- Solve.cpp - stages of bounding and searching ------------------------===//

#include "lib/solve/Solve.h"

#include "lib/solve/Branching.h"
#include "lib/solve/CertificateReader.h"
#include "lib/solve/Duals.h"
#include "lib/solve/Search.h"
#include "lib/solve/Squeeze.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>

using namespace cleave::solve;

namespace {

/// Work up to a part of all the time or moves there are.
struct Phase {
  double end;
  /// The temperature that the search starts with, in units of the bound by node that has a choice.
  double heat;
};

/// The first has a solution early, the others improve it for longer and longer.
constexpr double dualAlone = 0.05;
/// Where even the first iterations take longer than this, they are cut short.
constexpr double mostForFirst = 0.2;
constexpr Phase phases[] = {{0.095, 1}, {0.3, 1}, {0.65, 0.7}, {1, 0.5}};

/// Where there is time for many short runs, the first part of a phase goes to them: which mode of
/// the problem a run ends in is chance, and no heat suits all problems.
constexpr double heats[] = {100, 10, 1000, 30, 300, 3};
constexpr double partOfRuns = 0.6;
struct Runs {
  double movesPerNode, fewest;
  /// Work that goes to blocks, for the work that goes to trees.
  double blocks;
};
/// From nothing, and from what prices found, which is near the best and is only smoothed.
constexpr Runs fromNothing{4, 4, 1}, fromPrices{15, 10, 0};

/// What the messages say gets better as the bound rises, and moves seldom leave the mode that they
/// began in: a later phase goes to a new solution, made of the present messages, for this part of
/// it, then on with the best.
constexpr double partOfFresh = 0.25;

/// Iterations of the dual before the first solution.
constexpr unsigned firstIterations = 60;
/// Of memory, as parts of the dual's, at which solutions are made of messages: more than the dual's
/// leave room for what comes last.
constexpr double pricesOfConstruct[] = {1.0, 1.05, 1.1, 1.2, 1.5};

/// Of the time, what sweeps of the dual have at the most.
constexpr double partOfSweeps = 0.095;

/// Cases go on while they find better solutions, or raise the bound so fast that this part of the
/// gap would be closed in the time that is left. They are judged from so many on.
constexpr double partToClose = 0.2;
constexpr uint64_t casesToJudge = 16;

class Driver {
public:
  Driver(const Problem &problem, const SolveOptions &options)
      : problem(problem), options(options), model(problem) {}

  SolveResult run();

private:
  double seconds(Clock::time_point time) const {
    return std::chrono::duration<double>(time - options.start).count();
  }
  bool isStopped() const { return (options.stop && *options.stop) || Clock::now() >= deadline; }
  /// How much of the time has passed, unless moves are counted.
  double part() const { return seconds(Clock::now()) / std::max(seconds(deadline), 1e-9); }
  /// Checks the dual's certificate; keeps the better bound.
  void confirm();
  void keep(llvm::ArrayRef<unsigned> assignment);
  void keep(const Search &search);
  std::unique_ptr<Search> makeSearch();
  void chooseProblem();
  bool tryExhausting(uint64_t steps);
  void runPhase(const Phase &phase, double begin);
  void anneal(unsigned number, const Phase &phase, double begin, double unit);
  double anneal(Search &search, double hot, double cold, double from, double to);
  void construct(Search &search);
  bool constructAnew(Search &search);
  void raiseBound(double end, uint64_t most);
  bool isWorthBranching() const;
  void branch(unsigned workers, double end, uint64_t most);
  void keepBranching(double begin, double end);
  void report() const;
  bool isClosed() const {
    return result.bound.isInfeasible || result.isWithin(options.gap.value_or(0));
  }
  /// As far as the dual's numbers go, which nothing has confirmed.
  bool isNear() const {
    double gap = options.gap ? 0.9 * *options.gap * std::abs(target()) : 0;
    return std::ceil(duals->getBest().bound - 1e-6) >= target() - gap;
  }
  void squeeze();
  double target() const {
    return result.assignment ? static_cast<double>(result.cost)
                             : std::numeric_limits<double>::infinity();
  }

  const Problem &problem;
  const SolveOptions &options;
  Model model;
  Clock::time_point deadline;
  std::optional<Duals> duals;
  std::optional<Branching> branching;
  bool isBranchingOver = false;
  /// Whether it found what is the best: then moves alone do not, and it gets both threads.
  bool isBranchingAhead = false;
  /// Of the cases, before the present phase.
  double boundBefore = 0;
  std::vector<std::unique_ptr<Search>> searches;
  /// The bound at which a solution was last made of messages.
  double boundOfConstruct = 0;
  /// Whether the first search begins the phase with a new solution.
  bool isFresh = false;
  /// While these search the problem before edges were contracted.
  std::optional<MemoryUse> wideUse;
  /// By search: how many moves it makes in all of the time, as far as is known.
  double movesPerPart[2] = {0, 0};
  SolveResult result;
  /// Whether the first solution was found by prices (Squeeze.h).
  bool isSqueezed = false;
  /// Set by the thread that raises the bound: nothing better is to be found.
  std::atomic<bool> isBoundReached = false;
  double confirmed = -std::numeric_limits<double>::infinity();
  /// Of what all certificates have in common, which is checked once.
  Certificate steps;
  std::optional<CertificateReader> checker;
  bool areStepsRight = false;
};

} // namespace

void Driver::confirm() {
  const Dual::State &state = duals->getBest();
  if (result.hasBound && state.bound <= confirmed)
    return;
  Clock::time_point begin = Clock::now();
  if (!checker) {
    steps = model.getSteps();
    checker.emplace(problem, steps);
    areStepsRight = checker->checkSteps();
  }
  Certificate dual;
  model.addDual(dual, state);
  std::optional<Bound> bound = areStepsRight ? checker->checkDual(dual) : std::nullopt;
  // So long will the last check take, too, or longer on a busy machine.
  if (options.deadline != Clock::time_point::max()) {
    Clock::duration all = options.deadline - options.start;
    Clock::duration reserve =
        6 * (Clock::now() - begin) + all / 100 + std::chrono::milliseconds(100);
    deadline = std::min(deadline, options.deadline - std::min(reserve, all / 8));
  }
  if (!bound)
    return;
  confirmed = state.bound;
  if (!result.hasBound || bound->isInfeasible || bound->cost > result.bound.cost)
    result.bound = *bound;
  result.hasBound = true;
}

void Driver::keep(llvm::ArrayRef<unsigned> assignment) {
  std::optional<Cost> cost = problem.getCost(assignment);
  if (!cost || (result.assignment && *cost >= result.cost) ||
      problem.getPeak(assignment) > problem.limit)
    return;
  result.assignment = Assignment(assignment);
  result.cost = *cost;
}

void Driver::keep(const Search &search) {
  if (search.hasSolution())
    keep(wideUse ? model.expandWide(search.getBest()) : model.expand(search.getBest()));
}

void Driver::report() const {
  if (!options.report)
    return;
  Progress progress{seconds(Clock::now()), std::nullopt, std::nullopt};
  if (result.assignment)
    progress.cost = result.cost;
  if (result.hasBound)
    progress.bound = result.bound.cost;
  options.report(progress);
}

/// Returns whether nothing is left to find.
bool Driver::tryExhausting(uint64_t steps) {
  std::optional<Cost> upper;
  if (result.assignment)
    upper = result.cost;
  Proof proof = exhaust(problem, model.getCertificate(duals->getBest()), upper, steps,
                        [&] { return isStopped(); });
  if (proof.best)
    keep(*proof.best);
  if (!proof.isComplete)
    return false;
  result.hasBound = true;
  if (result.assignment)
    result.bound.cost = result.cost;
  else
    result.bound.isInfeasible = true;
  return true;
}

void Driver::raiseBound(double end, uint64_t most) {
  uint64_t made = 0;
  while (!isStopped() && !duals->isOver() && !isBoundReached) {
    if (options.moves ? made >= most : part() >= end)
      break;
    bool isLate = options.moves || part() >= partOfSweeps;
    made += duals->raise(target(), isLate, [&] { return isStopped(); });
    isBoundReached = isNear();
  }
}

/// Decided once, when the bound has stopped to rise.
bool Driver::isWorthBranching() const {
  if (isBranchingOver || !duals->isOver() || isStopped() || isBoundReached)
    return false;
  if (branching)
    return true;
  if (options.moves)
    return static_cast<double>(*options.moves) / Search::movesAtOnce >= options.sweepsToBranch;
  double left = seconds(deadline) - seconds(Clock::now());
  return left >= options.sweepsToBranch * duals->getSecondsPerSweep();
}

void Driver::branch(unsigned workers, double end, uint64_t most) {
  if (!branching->isStarted())
    branching->start(duals->getStalled());
  if (!branching->isValid()) {
    isBranchingOver = true;
    return;
  }
  auto stop = [&] { return isStopped() || (!options.moves && part() >= end); };
  uint64_t before = branching->getSweepCount();
  while (!stop() && (!options.moves || branching->getSweepCount() - before < most))
    if (!branching->step(workers, stop)) {
      isBoundReached = true;
      return;
    }
}

/// What dividing solutions into cases has found in a phase, and whether it goes on.
void Driver::keepBranching(double begin, double end) {
  const std::optional<Assignment> &best = branching->getBest();
  bool isBetter = false;
  if (best) {
    Assignment whole = model.expand(*best);
    std::optional<Cost> cost = problem.getCost(whole);
    if (cost && (!result.assignment || *cost < result.cost)) {
      keep(whole);
      isBetter = isBranchingAhead = true;
      if (wideUse) {
        searches.clear();
        wideUse.reset();
        searches.push_back(makeSearch());
      }
      searches.front()->setAssignment(*best);
    }
  }
  if (!branching->isValid())
    return;
  std::optional<Cost> bound = branching->getBound();
  if (!bound)
    result.bound.isInfeasible = !result.assignment;
  else if (!result.hasBound || *bound > result.bound.cost)
    result.bound.cost = *bound;
  result.hasBound = true;
  if (isBetter || !bound || !result.assignment || branching->getStepCount() < casesToJudge)
    return;
  // At the rate of this phase.
  double raised = static_cast<double>(*bound) - boundBefore;
  double gap = static_cast<double>(result.cost) - static_cast<double>(*bound);
  isBranchingOver = raised * (1 - end) < partToClose * gap * (end - begin);
}

/// Many short runs if there is time for them, then a long one from the best.
void Driver::anneal(unsigned number, const Phase &phase, double begin, double unit) {
  Search &search = *searches[number];
  double all = options.moves ? static_cast<double>(*options.moves) * (phase.end - begin)
                             : movesPerPart[number] * (phase.end - begin);
  const Runs &kind = isSqueezed ? fromPrices : fromNothing;
  double enough = std::max(static_cast<double>(search.getMovableCount()) * kind.movesPerNode, 1.0);
  auto runs = static_cast<unsigned>(std::min(all * partOfRuns / enough, 1e6));
  if (runs < kind.fewest)
    runs = 0;
  double made = 0, start = options.moves ? 0 : part();
  if (number == 0 && std::exchange(isFresh, false)) {
    double end = begin + (phase.end - begin) * partOfFresh;
    made += anneal(search, unit, 1e-3 * unit, begin, end);
    search.setAssignment(Assignment(search.getBest()));
    begin = end;
  }
  double middle = begin;
  if (runs > 0)
    middle += (phase.end - begin) * partOfRuns;
  for (unsigned run = 0; run < runs && !isStopped() && !isBoundReached; ++run) {
    // Heat alone seldom leaves a mode: most runs begin where the search once did.
    if (run % 4 != 0 && !isSqueezed && search.getOrigin())
      search.setAssignment(*search.getOrigin());
    double from = begin + (middle - begin) * run / runs;
    double to = begin + (middle - begin) * (run + 1) / runs;
    made += anneal(search, heats[(run + number) % std::size(heats)] * unit, 1e-3 * unit, from, to);
  }
  if (runs > 0)
    search.setAssignment(Assignment(search.getBest()));
  // Heat would undo what is good already.
  double heat = isSqueezed ? 1e-3 : phase.heat;
  made += anneal(search, heat * unit, 1e-3 * unit, middle, phase.end);
  if (double spent = part() - start; !options.moves && spent > 0)
    movesPerPart[number] = made / spent;
}

/// Returns how many moves were made.
double Driver::anneal(Search &search, double hot, double cold, double from, double to) {
  uint64_t asked = 0;
  double limit =
      options.moves ? static_cast<double>(*options.moves) / Search::movesAtOnce * (to - from) : 0;
  search.run([&]() -> std::optional<Search::Stage> {
    if (isStopped() || isBoundReached)
      return std::nullopt;
    double done =
        options.moves ? static_cast<double>(asked) / limit : (part() - from) / (to - from);
    if (done >= 1)
      return std::nullopt;
    ++asked;
    Search::Stage stage;
    stage.blocks = (isSqueezed ? fromPrices : fromNothing).blocks;
    // In the last part, memory left over is free.
    double cooled = done / 0.9;
    stage.price = cooled >= 1 ? 0 : 1;
    stage.temperature = cooled >= 1 ? cold * 0.1 : hot * std::pow(cold / hot, cooled);
    return stage;
  });
  return static_cast<double>(asked) * Search::movesAtOnce;
}

/// What the messages say, at several prices.
void Driver::construct(Search &search) {
  search.setPrices(duals->getBest().prices);
  boundOfConstruct = duals->getBest().bound;
  for (double price : pricesOfConstruct)
    if (!isStopped())
      search.construct(duals->getDual().getOrder(), duals->getBest().messages, price);
  if (!search.fits() && !search.repair())
    return;
  search.setAssignment(Assignment(search.getBest()));
  keep(search);
}

/// The same in place of the present solution, where the bound has risen since. Returns whether
/// there is one that fits.
bool Driver::constructAnew(Search &search) {
  const Dual::State &state = duals->getBest();
  if (wideUse || isSqueezed || !search.hasSolution() || isBranchingAhead || isStopped() ||
      state.bound <= boundOfConstruct)
    return false;
  boundOfConstruct = state.bound;
  std::optional<Assignment> least;
  double leastCost = 0;
  for (double price : pricesOfConstruct) {
    search.setAssignment(Assignment(search.getBest()));
    search.construct(duals->getDual().getOrder(), state.messages, price);
    if (search.getPresent() == search.getBest())
      continue;
    double cost = search.getCost(0);
    if (!least || cost < leastCost) {
      least = search.getPresent();
      leastCost = cost;
    }
  }
  if (least)
    search.setAssignment(*least);
  return least.has_value();
}

/// A good solution early, and what its cost adds to the bound.
void Driver::squeeze() {
  auto limit = static_cast<double>(problem.limit);
  Search &search = *searches.front();
  double gap = 0.9 * *options.gap;
  if (!Squeeze(duals->getDual(), search, limit, gap, [&] { return isStopped(); }).run()) {
    searches.clear();
    searches.push_back(makeSearch());
    return;
  }
  keep(search);
  isSqueezed = true;
  bool hasMemory = model.getUse().getPointCount() > 0;
  for (unsigned i = 0; i < firstIterations && hasMemory && !isStopped() && !isNear(); ++i)
    duals->getDual().iterate(target());
}

std::unique_ptr<Search> Driver::makeSearch() {
  uint64_t seed = options.seed + searches.size();
  if (wideUse)
    return std::make_unique<Search>(model.getWide(), *wideUse, seed);
  return std::make_unique<Search>(model.getProblem(), model.getUse(), seed);
}

/// Looks for a first solution where edges may be violated rather than memory; with one, goes on in
/// the contracted problem.
void Driver::chooseProblem() {
  const Search &first = *searches.front();
  if (!wideUse && !first.fits()) {
    wideUse.emplace(model.getWideUse());
    searches.clear();
    searches.push_back(makeSearch());
  } else if (wideUse && first.hasSolution()) {
    Assignment start = model.contract(first.getBest());
    searches.clear();
    wideUse.reset();
    searches.push_back(makeSearch());
    searches.front()->setAssignment(start);
  }
}

void Driver::runPhase(const Phase &phase, double begin) {
  // Once the bound rises no more, cases or a second search take its thread.
  size_t count = duals->isOver() && !isWorthBranching() ? 2 : 1;
  chooseProblem();
  while (searches.size() < count)
    searches.push_back(makeSearch());
  // All go on from the best.
  const Search *best = searches.front().get();
  for (auto &search : searches)
    if (search->isBetterThan(*best))
      best = search.get();
  Assignment start = best->getBest();
  for (auto &search : searches) {
    search->setPrices(duals->getBest().prices);
    search->setAssignment(start);
  }
  uint64_t most = 0;
  if (options.moves)
    most = static_cast<uint64_t>(static_cast<double>(*options.moves) / Search::movesAtOnce *
                                 (phase.end - begin));
  double unit = std::max(std::abs(duals->getBest().bound), 1.0) /
                static_cast<double>(std::max<size_t>(searches.front()->getMovableCount(), 1));
  std::optional<Assignment> known;
  if (!wideUse && searches.front()->hasSolution())
    known = searches.front()->getBest();
  isFresh = begin > dualAlone && constructAnew(*searches.front());
  bool isAlone = isBranchingAhead && isWorthBranching();
  std::thread other([&] {
    if (count == 2) {
      anneal(1, phase, begin, unit);
      return;
    }
    raiseBound(phase.end, most);
    if (!isWorthBranching())
      return;
    if (!branching)
      branching.emplace(problem, model, options.seed);
    boundBefore = branching->isStarted() ? static_cast<double>(branching->getBound().value_or(0))
                                         : duals->getBest().bound;
    if (result.assignment && known)
      branching->setUpper(result.cost, *known);
    branch(isAlone ? 2 : 1, phase.end, most);
  });
  if (!isAlone)
    anneal(0, phase, begin, unit);
  other.join();
  for (auto &search : searches)
    keep(*search);
  if (count == 1 && branching && branching->isStarted())
    keepBranching(begin, phase.end);
}

SolveResult Driver::run() {
  if (model.isInfeasible()) {
    if (auto bound = check(problem, model.getCertificate({}))) {
      result.bound = *bound;
      result.hasBound = true;
    }
    return result;
  }
  deadline = options.deadline;
  if (deadline != Clock::time_point::max()) {
    // Time for the last check is left: until one was made, about as long as all that was done so
    // far.
    double spent = seconds(Clock::now()), all = seconds(deadline);
    double reserve = std::min(all * 0.3, 0.05 + 1.5 * spent + 0.01 * all);
    deadline -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(reserve));
  }
  duals.emplace(model.getProblem(), model.getUse());
  searches.push_back(makeSearch());
  bool isSmall = problem.getNodes().size() <= mostToExhaust;
  if (options.gap && !isSmall)
    squeeze();
  for (unsigned i = 0; i < firstIterations && !result.assignment; ++i) {
    if (i > 0 && (isStopped() || (!options.moves && part() >= mostForFirst)))
      break;
    duals->getDual().iterate(target());
  }
  if (!result.assignment)
    construct(*searches.front());
  confirm();
  uint64_t steps = 20000;
  if (isClosed() || (isSmall && tryExhausting(steps)))
    return result;
  if (!isSqueezed) {
    raiseBound(dualAlone, firstIterations);
    construct(*searches.front());
  }
  confirm();
  report();
  double begin = dualAlone;
  for (const Phase &phase : phases) {
    if (isStopped() || isClosed())
      break;
    runPhase(phase, begin);
    begin = phase.end;
    confirm();
    report();
    steps *= 10;
    if (isSmall && !isClosed() && tryExhausting(steps))
      break;
  }
  return result;
}

SolveResult cleave::solve::solve(const Problem &problem, const SolveOptions &options) {
  return Driver(problem, options).run();
}
