//===- Solve.cpp - stages of bounding and searching ------------------------===//

#include "lib/solve/Solve.h"

#include "lib/solve/Dual.h"
#include "lib/solve/Reduction.h"
#include "lib/solve/Search.h"

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
  /// The temperature that the search starts with, in units of the bound by node.
  double heat;
};

/// The first has a solution early, the others improve it for longer and longer.
constexpr double dualAlone = 0.05;
/// Where even the first iterations take longer than this, they are cut short.
constexpr double mostForFirst = 0.2;
constexpr Phase phases[] = {{0.095, 1}, {0.3, 1}, {0.65, 0.7}, {1, 0.5}};

/// Iterations of the dual before the first solution.
constexpr unsigned firstIterations = 60;
/// Larger problems are not gone through.
constexpr size_t mostToExhaust = 200;

class Driver {
public:
  Driver(const Problem &problem, const SolveOptions &options)
      : problem(problem), options(options), reduction(problem) {}

  SolveResult run();

private:
  double seconds(Clock::time_point time) const {
    return std::chrono::duration<double>(time - options.start).count();
  }
  bool isStopped() const { return (options.stop && *options.stop) || Clock::now() >= deadline; }
  /// How much of the time has passed, unless moves are counted.
  double part() const { return seconds(Clock::now()) / std::max(seconds(deadline), 1e-9); }
  Certificate getCertificate(const Dual::State &state) const;
  /// Checks the dual's certificate; keeps the better bound.
  void confirm();
  void keep(llvm::ArrayRef<unsigned> assignment);
  bool tryExhausting(uint64_t steps);
  void runPhase(const Phase &phase, double begin);
  void anneal(Search &search, const Phase &phase, double begin, double unit);
  void construct(Search &search);
  void raiseBound(double end, uint64_t iterations);
  void report() const;
  bool isClosed() const { return result.bound.isInfeasible || result.isOptimal(); }
  double target() const {
    return result.assignment ? static_cast<double>(result.cost)
                             : std::numeric_limits<double>::infinity();
  }

  const Problem &problem;
  const SolveOptions &options;
  Reduction reduction;
  Clock::time_point deadline;
  std::optional<LiveRanges> live;
  std::optional<Dual> dual;
  std::vector<std::unique_ptr<Search>> searches;
  SolveResult result;
  /// Set by the thread that raises the bound: nothing better is to be found.
  std::atomic<bool> isBoundReached = false;
  double confirmed = -std::numeric_limits<double>::infinity();
};

} // namespace

static Cost toFixed(double value) {
  // Rounded first where a double has digits below the unit.
  return static_cast<Cost>(std::round(std::ldexp(value, Certificate::shift)));
}

Certificate Driver::getCertificate(const Dual::State &state) const {
  Certificate certificate;
  certificate.removed = reduction.removed;
  if (reduction.isInfeasible)
    return certificate;
  size_t next = 0;
  auto addMessages = [&](unsigned node) {
    size_t offset = certificate.messages.size();
    certificate.messages.resize(offset + problem.getNodes()[node].size);
    for (unsigned choice : reduction.kept[node])
      certificate.messages[offset + choice] = toFixed(state.messages[next++]);
  };
  for (const Edge &edge : problem.getEdges()) {
    addMessages(edge.first);
    addMessages(edge.second);
  }
  for (auto [time, price] : llvm::zip_equal(live->times, state.prices))
    if (Cost fixed = toFixed(price); fixed > 0)
      certificate.prices.push_back({time, fixed});
  return certificate;
}

void Driver::confirm() {
  const Dual::State &state = dual->getBest();
  if (result.hasBound && state.bound <= confirmed)
    return;
  Clock::time_point begin = Clock::now();
  std::optional<Bound> bound = check(problem, getCertificate(state));
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
  Proof proof =
      exhaust(problem, getCertificate(dual->getBest()), upper, steps, [&] { return isStopped(); });
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

void Driver::raiseBound(double end, uint64_t iterations) {
  for (uint64_t i = 0; !isStopped() && !dual->isStalled(); ++i) {
    if (options.moves ? i >= iterations : part() >= end)
      return;
    dual->iterate(target());
    if (std::ceil(dual->getBest().bound - 1e-6) >= target()) {
      isBoundReached = true;
      return;
    }
  }
}

void Driver::anneal(Search &search, const Phase &phase, double begin, double unit) {
  double total = phase.end - begin;
  double hot = phase.heat * unit, cold = 1e-3 * unit;
  uint64_t rounds = 0;
  double limit =
      options.moves ? static_cast<double>(*options.moves) / Search::movesAtOnce * total : 0;
  search.run([&]() -> std::optional<Search::Stage> {
    if (isStopped() || isBoundReached)
      return std::nullopt;
    double done = options.moves ? static_cast<double>(rounds++) / limit : (part() - begin) / total;
    if (done >= 1)
      return std::nullopt;
    // In the last part, memory left over is free.
    double cooled = done / 0.9;
    if (cooled >= 1)
      return Search::Stage{cold * 0.1, 0};
    return Search::Stage{hot * std::pow(cold / hot, cooled), 1};
  });
}

/// What the messages say, at several prices: more than the dual's leave room for what comes last.
void Driver::construct(Search &search) {
  search.setPrices(dual->getBest().prices);
  for (double price : {1.0, 1.05, 1.1, 1.2, 1.5})
    if (!isStopped())
      search.construct(dual->getOrder(), dual->getBest().messages, price);
  search.setAssignment(Assignment(search.getBest()));
  keep(reduction.expand(search.getBest()));
}

void Driver::runPhase(const Phase &phase, double begin) {
  // Once the bound rises no more, a second search takes its thread.
  size_t count = dual->isStalled() ? 2 : 1;
  while (searches.size() < count)
    searches.push_back(
        std::make_unique<Search>(reduction.problem, *live, options.seed + searches.size()));
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
  uint64_t iterations = 0;
  if (options.moves)
    iterations = static_cast<uint64_t>(static_cast<double>(*options.moves) / Search::movesAtOnce *
                                       (phase.end - begin));
  double unit = std::max(std::abs(dual->getBest().bound), 1.0) /
                static_cast<double>(problem.getNodes().size());
  std::thread other([&] {
    if (count == 2)
      anneal(*searches[1], phase, begin, unit);
    else
      raiseBound(phase.end, iterations);
  });
  anneal(*searches[0], phase, begin, unit);
  other.join();
  for (auto &search : searches)
    keep(reduction.expand(search->getBest()));
}

SolveResult Driver::run() {
  if (reduction.isInfeasible) {
    if (auto bound = check(problem, getCertificate({}))) {
      result.bound = *bound;
      result.hasBound = true;
    }
    return result;
  }
  live.emplace(reduction.problem);
  deadline = options.deadline;
  if (deadline != Clock::time_point::max()) {
    // Time for the last check is left: until one was made, about as long as all that was done so
    // far.
    double spent = seconds(Clock::now()), all = seconds(deadline);
    double reserve = std::min(all * 0.3, 0.05 + 1.5 * spent + 0.01 * all);
    deadline -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(reserve));
  }
  dual.emplace(reduction.problem, *live);
  searches.push_back(std::make_unique<Search>(reduction.problem, *live, options.seed));
  for (unsigned i = 0; i < firstIterations; ++i) {
    if (i > 0 && (isStopped() || (!options.moves && part() >= mostForFirst)))
      break;
    dual->iterate(target());
  }
  construct(*searches.front());
  confirm();
  bool isSmall = problem.getNodes().size() <= mostToExhaust;
  uint64_t steps = 20000;
  if (isClosed() || (isSmall && tryExhausting(steps)))
    return result;
  raiseBound(dualAlone, firstIterations);
  construct(*searches.front());
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
