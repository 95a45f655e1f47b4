// Plans each of whose ranks recomputes as little as its memory asks for. What such a rank saves
// depends on the schedule and on the rank's place, so that each is carried out with all of its
// layers: few can be. They are looked at after the space, where most was learnt of cuts and
// schedules.
#include "lib/plan/BudgetQueue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <map>

using namespace cleave::plan;

static constexpr double forEver = std::numeric_limits<double>::infinity();

/// Seconds within the memory, on the straight line between two ways to recompute of which one fits
/// and the other one does not. No end where the fastest fits, so that a budget changes nothing, or
/// none does.
static double interpolate(llvm::ArrayRef<PlanBound> ways, double memory) {
  double least = forEver;
  const PlanBound &none = ways[size_t(Recompute::None)];
  if (none.memory <= memory)
    return forEver;
  for (const PlanBound &fits : ways) {
    if (fits.memory > memory || fits.seconds == 0)
      continue;
    least = std::min(least, fits.seconds);
    for (const PlanBound &other : ways)
      if (other.memory > memory && !std::isinf(other.memory))
        least =
            std::min(least, fits.seconds + (other.seconds - fits.seconds) * (memory - fits.memory) /
                                               (other.memory - fits.memory));
  }
  return least;
}

/// Seconds if nothing is recomputed: what does not fit waits in the host's memory, and copies of it
/// run beside kernels. No end where all fits.
/// `rounds`: how often a rank has new microbatches in flight.
static double guessOffloaded(const PlanBound &none, double memory, double rounds,
                             const cleave::cost::Device &device) {
  if (none.memory <= memory || std::isinf(none.memory))
    return forEver;
  // Out and back.
  const double copies = 2 * cleave::cost::timeOfHostCopy(device, none.memory - memory);
  return std::max(none.seconds, rounds * copies);
}

/// What a plan takes and needs, as far as that is known.
PlanBound Search::measure(const Plan &plan) {
  for (const Candidate &each : result.candidates)
    if (each.plan == plan)
      return {each.step.seconds, each.step.maxMemory()};
  return boundPlan(plan);
}

/// Of the schedules of a cut: plans with a budget, and seconds that they may take. A bound of them
/// says best which ones are fast; where none is known, what is known of those whose ranks recompute
/// alike. No end where a budget changes nothing, or nothing fits. `shape` recomputes nothing.
std::vector<std::pair<double, Plan>> Search::guessBudgets(const Entry &entry, Shape shape,
                                                          bool offloads) {
  const std::vector<std::string> schedules = space.listSchedules(shape);
  const std::vector<double> bounds = boundBudgetSchedules(entry, shape, offloads);
  const double rounds =
      double(space.programs[shape.layout.program].microbatches) / double(shape.layout.pipeline);
  std::vector<std::pair<double, Plan>> guesses;
  for (auto [number, schedule] : llvm::enumerate(schedules)) {
    std::array<PlanBound, std::size(allRecomputes)> ways;
    for (Recompute recompute : allRecomputes) {
      shape.recompute = recompute;
      if (recompute == Recompute::None || bounds.empty())
        ways[size_t(recompute)] = measure({shape, schedule});
    }
    const PlanBound &none = ways[size_t(Recompute::None)];
    double seconds = forEver;
    if (!bounds.empty())
      seconds = none.memory > options.memory ? bounds[number] : forEver;
    else if (offloads)
      seconds = guessOffloaded(none, options.memory, rounds, cluster.device);
    else
      seconds = interpolate(ways, options.memory);
    shape.recompute = Recompute::Budget;
    guesses.push_back({seconds, {shape, schedule, /*budget=*/0, offloads}});
  }
  return guesses;
}

/// The cuts of layouts that are partitioned, and that may be faster than the best, the fastest as
/// far as that is known first. They recompute nothing.
std::vector<std::pair<const Search::Entry *, Shape>> Search::listCutsOfBudgets() {
  std::vector<std::pair<double, std::pair<const Entry *, Shape>>> cuts;
  for (Entry &entry : entries) {
    if (!entry.times || entry.report.kind == LayoutReport::TooLarge)
      continue;
    for (const Work &work : entry.works) {
      if (work.shape.recompute != Recompute::None || isOver())
        continue;
      const double bound = boundBudgetStages(entry, work.shape, options.offloads);
      if (bound < best)
        cuts.push_back({bound, {&entry, work.shape}});
    }
  }
  llvm::stable_sort(cuts, llvm::less_first());
  std::vector<std::pair<const Entry *, Shape>> list;
  for (auto &[seconds, cut] : cuts)
    list.push_back(cut);
  return list;
}

/// Of their schedules those that may be faster than the best, the fastest first, with the seconds
/// that they may take. For half of the time that is left.
std::vector<std::pair<double, Plan>> Search::listBudgets() {
  const double end = options.timer ? (now() + options.timer->getLimit()) / 2 : forEver;
  std::vector<std::pair<double, Plan>> guesses;
  for (auto &[entry, shape] : listCutsOfBudgets())
    for (bool offloads : {false, true}) {
      if (isOver() || now() >= end || (offloads && !options.offloads))
        break;
      if (!offloads && options.mustOffload)
        continue;
      for (auto &guess : guessBudgets(*entry, shape, offloads))
        if (guess.first < best)
          guesses.push_back(std::move(guess));
    }
  llvm::stable_sort(guesses, llvm::less_first());
  return guesses;
}

/// Whether a plan was carried out with some budget.
bool Search::isKnown(const Plan &plan) const {
  return llvm::any_of(result.candidates, [&](const Candidate &each) {
    return each.plan.shape == plan.shape && each.plan.schedule == plan.schedule &&
           each.plan.offloads == plan.offloads;
  });
}

/// Carries a plan out. The passes plan memory to the byte, simulations count what is held and what
/// runs; so the budget is that for which the simulated step fits. The seconds of that, if one does.
std::optional<double> Search::tryBudget(Plan plan) {
  // Ranks reach a budget in steps: where a little less changed nothing, the next one is smaller by
  // more.
  constexpr unsigned maxAttempts = 4;
  constexpr double enough = 0.99, margin = 0.005;
  plan.budget = int64_t(options.memory);
  std::optional<double> least;
  for (unsigned attempt = 0; attempt < maxAttempts && plan.budget > 0 && !isOver(); ++attempt) {
    auto program = programs.stageWhole(plan);
    auto candidate = program ? simulate(plan, *program, forEver)
                             : llvm::Expected<Candidate>(program.takeError());
    if (!candidate) {
      ++result.numRefused;
      result.refusedBudgets.push_back({plan, llvm::toString(candidate.takeError())});
      return least;
    }
    if (plan.offloads && candidate->step.maxHostMemory() == 0) {
      // Nothing is worth it: it is the plan that may not, and is carried out as that one.
      plan.offloads = false;
      if (options.mustOffload || isKnown(plan))
        return least;
      continue;
    }
    const double found = candidate->step.maxMemory(), seconds = candidate->step.seconds;
    if (candidate->fits)
      checkBudget(*candidate, program->work);
    plan.budget += int64_t(options.memory - found);
    if (!candidate->fits)
      plan.budget -= int64_t(margin * attempt * options.memory);
    if (candidate->fits) {
      least = std::min(least.value_or(seconds), seconds);
      result.bestBudget = std::min(result.bestBudget.value_or(seconds), seconds);
      add(std::move(*candidate));
      if (found >= enough * options.memory)
        break;
    }
  }
  return least;
}

namespace {
/// What plans with a budget took that were tried, to choose the one that is tried next.
class BudgetChoice {
public:
  using Guess = std::pair<double, Plan>;

  /// The one with the least seconds, as far from what is known of it as others with its schedule
  /// were. Of a schedule that none was tried with it is less far, so that one is.
  std::vector<Guess>::iterator choose(std::vector<Guess> &plans) const {
    return std::min_element(plans.begin(), plans.end(), [&](const Guess &a, const Guess &b) {
      return estimate(a) < estimate(b);
    });
  }

  /// `seconds`: none if it does not fit, so that others of the layout with the schedule hardly do.
  void add(const Guess &guess, std::optional<double> seconds) {
    const auto &[least, plan] = guess;
    if (!seconds) {
      misfits.push_back(plan);
      return;
    }
    const double ratio = *seconds / least;
    auto [known, isNew] = ratios.try_emplace({plan.schedule, plan.offloads}, ratio);
    if (!isNew)
      known->second = std::min(known->second, ratio);
    usual = std::min(usual.value_or(ratio), ratio);
  }

private:
  double estimate(const Guess &guess) const {
    constexpr double ofMisfits = 1.5;
    const auto &[least, plan] = guess;
    auto found = ratios.find({plan.schedule, plan.offloads});
    const double ratio = found != ratios.end() ? found->second : std::sqrt(usual.value_or(1));
    const bool isMisfit = llvm::any_of(misfits, [&, &plan = plan](const Plan &other) {
      const Layout &a = plan.shape.layout, &b = other.shape.layout;
      return plan.schedule == other.schedule && plan.offloads == other.offloads &&
             a.program == b.program && a.pipeline == b.pipeline && a.data == b.data &&
             a.tensor == b.tensor && a.context == b.context && a.experts == b.experts;
    });
    return least * ratio * (isMisfit ? ofMisfits : 1);
  }

  std::map<std::pair<std::string, bool>, double> ratios;
  std::optional<double> usual;
  std::vector<Plan> misfits;
};
} // namespace

bool Search::triesBudgets() const {
  return options.numBudgets > 0 && !options.isExhaustive && !space.fixed.get(Key::Recompute);
}

/// After the space was searched: what is faster where ranks differ in what they recompute. Some of
/// the time that is left is for the bound, and some for layouts that the search left out, since
/// there ranks that recompute alike are slow.
void Search::searchBudgets() {
  if (!triesBudgets())
    return;
  constexpr double part = 0.7, ofLayouts = 0.25;
  constexpr size_t mostLayouts = 8;
  keepsTime = false;
  if (options.mustOffload)
    best = forEver; // of those that do
  auto after = [&](double part) {
    return options.timer ? now() + part * (options.timer->getLimit() - now()) : forEver;
  };
  const double end = after(part);
  BudgetQueue queue(*this);
  if (options.mustOffload || bestPlan.shape.recompute != Recompute::None)
    queue.open(mostLayouts, after(ofLayouts));
  std::vector<std::pair<double, Plan>> plans = listBudgets();
  BudgetChoice choice;
  while (!plans.empty() && !isOver() && now() < end && result.numBudgets < options.numBudgets) {
    auto next = choice.choose(plans);
    const std::pair<double, Plan> guess = *next;
    plans.erase(next);
    ++result.numBudgets;
    choice.add(guess, tryBudget(guess.second));
  }
  if (result.numBudgets > 0)
    result.budgetBound = queue.run();
  if (!options.mustOffload)
    return;
  const size_t all = result.candidates.size();
  llvm::erase_if(result.candidates,
                 [](const Candidate &each) { return each.fits && !each.plan.offloads; });
  result.hasOthers = result.candidates.size() < all;
  result.bound = result.budgetBound;
}
