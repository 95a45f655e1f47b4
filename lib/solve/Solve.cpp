//===- Solve.cpp - stages of bounding and searching ------------------------===//

#include "lib/solve/Solve.h"

#include "lib/solve/Branching.h"
#include "lib/solve/Search.h"
#include "lib/solve/SmoothDual.h"
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

/// Iterations of the dual before the first solution.
constexpr unsigned firstIterations = 60;

/// The smooth dual is slower at first, and searches are the better the better the prices are that
/// they begin with: so the dual goes on until it stalls, or for so many iterations and this part of
/// the time.
constexpr unsigned fewestOfDual = 200;
constexpr double partOfDual = 0.095;
/// Iterations of the smooth dual, each of which takes as long as so many of the other, after which
/// the other one has the bound of where it is.
constexpr unsigned smoothAtOnce = 25, sweepsPerSmooth = 8;
/// It is over when so many of these in a row have raised the bound by less than this part of the
/// gap.
constexpr unsigned mostIdle = 4;
constexpr double leastRaise = 2.5e-4;
/// Where the smooth dual is over, sweeps that add what its temperature gave up.
constexpr unsigned settlingSweeps = 30;

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
  void raiseBound(double end, uint64_t most);
  bool isSmoothNext() const {
    return smooth || dual->isStalled() ||
           (iterations >= fewestOfDual && (options.moves || part() >= partOfDual));
  }
  unsigned raiseSmoothly();
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
    return std::ceil(dual->getBest().bound - 1e-6) >= target() - gap;
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
  std::optional<Dual> dual;
  /// Iterations of the dual, and the seconds that they took.
  uint64_t iterations = 0;
  double secondsOfIterations = 0;
  /// From where the dual has become slow.
  std::optional<SmoothDual> smooth;
  /// The dual's best state before that.
  std::optional<Dual::State> stalled;
  /// Whether neither dual raises the bound any more.
  bool isDualOver = false;
  unsigned idle = 0;
  std::optional<Branching> branching;
  bool isBranchingOver = false;
  /// Whether it found what is the best: then moves alone do not, and it gets both threads.
  bool isBranchingAhead = false;
  /// Of the cases, before the present phase.
  double boundBefore = 0;
  std::vector<std::unique_ptr<Search>> searches;
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
};

} // namespace

void Driver::confirm() {
  const Dual::State &state = dual->getBest();
  if (result.hasBound && state.bound <= confirmed)
    return;
  Clock::time_point begin = Clock::now();
  std::optional<Bound> bound = check(problem, model.getCertificate(state));
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
  Proof proof = exhaust(problem, model.getCertificate(dual->getBest()), upper, steps,
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
  while (!isStopped() && !isDualOver && !isBoundReached) {
    if (options.moves ? made >= most : part() >= end)
      break;
    if (isSmoothNext()) {
      made += raiseSmoothly();
    } else {
      Clock::time_point begin = Clock::now();
      dual->iterate(target());
      secondsOfIterations += std::chrono::duration<double>(Clock::now() - begin).count();
      ++iterations;
      ++made;
    }
    isBoundReached = isNear();
  }
}

/// Some iterations of the smooth dual; returns for how many of the other it took as long.
unsigned Driver::raiseSmoothly() {
  double before = dual->getBest().bound;
  double gap = std::isfinite(target()) ? target() - before : 0.1 * std::abs(before);
  if (!smooth) {
    stalled = dual->getBest();
    smooth.emplace(model.getProblem(), model.getUse(), dual->getPairCosts(),
                   SmoothDual::Point{dual->getBest().messages, dual->getBest().prices}, gap);
  }
  unsigned made = 0;
  while (made < smoothAtOnce && !isStopped()) {
    smooth->iterate();
    ++made;
  }
  dual->start(smooth->getPoint().messages, smooth->getPoint().prices);
  double raised = dual->settle(0, 2) - before;
  idle = smooth->isCool() && raised < leastRaise * gap ? idle + 1 : 0;
  isDualOver = smooth->isCold() || idle >= mostIdle;
  if (isDualOver)
    dual->settle(0, settlingSweeps);
  return made * sweepsPerSmooth;
}

/// Decided once, when the bound has stopped to rise.
bool Driver::isWorthBranching() const {
  if (isBranchingOver || !isDualOver || isStopped() || isBoundReached)
    return false;
  if (branching)
    return true;
  if (options.moves)
    return static_cast<double>(*options.moves) / Search::movesAtOnce >= options.sweepsToBranch;
  double left = seconds(deadline) - seconds(Clock::now());
  return left * static_cast<double>(iterations) >= options.sweepsToBranch * secondsOfIterations;
}

void Driver::branch(unsigned workers, double end, uint64_t most) {
  if (!branching->isStarted())
    branching->start(stalled ? *stalled : dual->getBest());
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
  double made = 0, start = options.moves ? 0 : part(), middle = begin;
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

/// What the messages say, at several prices: more than the dual's leave room for what comes last.
void Driver::construct(Search &search) {
  search.setPrices(dual->getBest().prices);
  for (double price : {1.0, 1.05, 1.1, 1.2, 1.5})
    if (!isStopped())
      search.construct(dual->getOrder(), dual->getBest().messages, price);
  if (!search.fits() && !search.repair())
    return;
  search.setAssignment(Assignment(search.getBest()));
  keep(search);
}

/// A good solution early, and what its cost adds to the bound.
void Driver::squeeze() {
  auto limit = static_cast<double>(problem.limit);
  Search &search = *searches.front();
  if (!Squeeze(*dual, search, limit, [&] { return isStopped(); }).run()) {
    searches.clear();
    searches.push_back(makeSearch());
    return;
  }
  keep(search);
  isSqueezed = true;
  bool hasMemory = model.getUse().getPointCount() > 0;
  for (unsigned i = 0; i < firstIterations && hasMemory && !isStopped() && !isNear(); ++i)
    dual->iterate(target());
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
  size_t count = isDualOver && !isWorthBranching() ? 2 : 1;
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
    search->setPrices(dual->getBest().prices);
    search->setAssignment(start);
  }
  uint64_t most = 0;
  if (options.moves)
    most = static_cast<uint64_t>(static_cast<double>(*options.moves) / Search::movesAtOnce *
                                 (phase.end - begin));
  double unit = std::max(std::abs(dual->getBest().bound), 1.0) /
                static_cast<double>(std::max<size_t>(searches.front()->getMovableCount(), 1));
  std::optional<Assignment> known;
  if (!wideUse && searches.front()->hasSolution())
    known = searches.front()->getBest();
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
                                         : dual->getBest().bound;
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
  dual.emplace(model.getProblem(), model.getUse());
  searches.push_back(makeSearch());
  bool isSmall = problem.getNodes().size() <= mostToExhaust;
  if (options.gap && !isSmall)
    squeeze();
  for (unsigned i = 0; i < firstIterations && !result.assignment; ++i) {
    if (i > 0 && (isStopped() || (!options.moves && part() >= mostForFirst)))
      break;
    dual->iterate(target());
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
