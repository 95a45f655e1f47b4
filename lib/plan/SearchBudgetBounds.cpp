// What a search knows of plans whose backwards recompute whatever serves them.
#include "lib/plan/BudgetQueue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <set>

using namespace cleave::plan;

/// The shortest step of any way to recompute in this cut, whatever memory it takes: one that
/// recomputes nothing, as far as that does not hang on the order of ops.
double Search::boundBudget(const Entry &entry, const Shape &shape) const {
  const Layout &layout = shape.layout;
  Shape any = shape;
  any.recompute = Recompute::Budget;
  double bound = std::max(
      boundLayout(layout),
      boundShape(space, cluster, any, programs.timeGlobal(layout.program, layout.numParts())));
  for (const std::optional<LayerTimes> *times : {&entry.undivided, &entry.times})
    if (*times)
      bound = std::max(bound, boundShape(space, cluster, any, **times));
  return bound;
}

/// None where nothing is known of its layers.
std::optional<BudgetBound> Search::getBudgetBound(const Entry &entry, const Shape &shape,
                                                  bool offloads) {
  const std::optional<LayerTimes> &times = entry.times ? entry.times : entry.undivided;
  if (!times || times->forward.empty())
    return std::nullopt;
  LayerCurves curves = programs.drawCurves(shape.layout);
  if (curves.layers.empty())
    return std::nullopt;
  return BudgetBound(space, cluster, shape, *times, std::move(curves), offloads);
}

/// The same within the memory.
double Search::boundBudgetStages(Entry &entry, const Shape &shape, bool offloads) {
  raiseUndivided(entry);
  double bound = boundBudget(entry, shape);
  if (auto stages = getBudgetBound(entry, shape, offloads))
    bound = std::max(bound, stages->boundAll(findRoom(shape.layout)));
  return bound;
}

/// Of a layout that is partitioned its own.
const StageSamples *Search::sampleBudgets(const Entry &entry, const Shape &shape) {
  return entry.times ? programs.sampleAny(shape) : programs.sampleAnyUndivided(shape);
}

/// The same of each schedule; empty where nothing more is known of them.
std::vector<double> Search::boundBudgetSchedules(const Entry &entry, const Shape &shape,
                                                 bool offloads) {
  auto stages = getBudgetBound(entry, shape, offloads);
  const StageSamples *samples = stages ? sampleBudgets(entry, shape) : nullptr;
  auto table = samples ? tabulateStages(space, cluster, shape, *samples) : std::nullopt;
  if (!table)
    return {};
  std::vector<double> bounds;
  for (const std::string &schedule : space.listSchedules(shape))
    bounds.push_back(stages->boundSchedule(schedule, *table, options.memory));
  return bounds;
}

/// Compares a plan that fits to what is known of its cut and its schedule.
void Search::checkBudget(const Candidate &candidate, const simulate::ProgramWork &work) {
  Shape shape = candidate.plan.shape;
  shape.recompute = Recompute::None;
  auto entry =
      llvm::find_if(entries, [&](const Entry &each) { return each.report.layout == shape.layout; });
  const std::string name =
      llvm::formatv("{0} with a budget and {1} pp={2}", candidate.plan.schedule,
                    describe(shape.layout), shape.layout.pipeline);
  const bool offloads = candidate.plan.offloads;
  double bound = boundBudgetStages(*entry, shape, offloads);
  std::vector<double> bounds = boundBudgetSchedules(*entry, shape, offloads);
  if (!bounds.empty())
    for (auto [schedule, found] : llvm::zip_equal(space.listSchedules(shape), bounds))
      if (schedule == candidate.plan.schedule)
        bound = std::max(bound, found);
  if (candidate.step.seconds < bound)
    result.violations.push_back(
        llvm::formatv("{0}: {1} s, bound {2} s", name, candidate.step.seconds, bound));
  if (const StageSamples *samples = sampleBudgets(*entry, shape))
    checkBudgetStages(name, shape, *samples, work);
}

/// What recomputes must take no less than what does not.
void Search::checkBudgetStages(llvm::StringRef name, const Shape &shape,
                               const StageSamples &samples, const simulate::ProgramWork &work) {
  std::vector<int64_t> ends = space.listCuts(shape);
  ends.push_back(space.programs[shape.layout.program].layers);
  int64_t begin = 0;
  std::vector<StageSample> found =
      describeAny(cluster, work, work, /*waits=*/true, /*hasOnce=*/true);
  for (auto [end, stage] : llvm::zip_equal(ends, found)) {
    std::optional<StageSample> sample = samples.get(begin, end);
    if (!sample)
      return;
    auto compare = [&](llvm::StringRef what, double found, double least) {
      if (found < least * (1 - rounding))
        result.violations.push_back(llvm::formatv("{0}: {1} of layers {2} to {3}: {4:e6}, bound "
                                                  "{5:e6}",
                                                  name, what, begin, end - 1, found, least));
    };
    for (auto [pass, of] : {std::pair("seconds of the forward", &StageSample::forward),
                            {"seconds of the backward", &StageSample::backward},
                            {"seconds of the input gradient", &StageSample::input},
                            {"seconds of the weight gradient", &StageSample::weight},
                            {"kernels of the backward", &StageSample::kernels},
                            {"seconds of the unshard", &StageSample::unshard},
                            {"seconds of the update", &StageSample::update}})
      compare(pass, (stage.*of).seconds(), ((*sample).*of).seconds());
    compare("seconds of reductions", stage.reduced, sample->reduced);
    if (shape.layout.sharding == Sharding::FsdpOnce)
      compare("gathered bytes", stage.gatheredBytes, sample->gatheredBytes);
    compare("bytes between the halves of the backward", stage.heldBytes, sample->heldGradients);
    compare("bytes while it runs", stage.microbatchBytes, sample->microbatchBytes);
    begin = end;
  }
}

Search::BudgetQueue::BudgetQueue(Search &search) : search(search) {
  for (Entry &entry : search.entries)
    for (const Work &work : entry.works)
      if (work.shape.recompute == Recompute::None && entry.report.kind != LayoutReport::TooLarge)
        push({search.boundBudget(entry, work.shape), Step::Stages, &entry, work.shape});
}

double Search::BudgetQueue::run() {
  while (!items.empty() && !search.isOver()) {
    Item item = items.top();
    if (item.next == Step::None || item.bound >= search.best)
      break;
    items.pop();
    push(raise(item));
  }
  return items.empty() ? search.best : std::min(search.best, items.top().bound);
}

void Search::BudgetQueue::open(size_t count, double end) {
  std::vector<Item> known;
  std::set<const Entry *> layouts;
  while (!items.empty() && layouts.size() < count && !search.isOver() && search.now() < end) {
    Item item = items.top();
    items.pop();
    if (item.next != Step::None) {
      push(raise(item));
      continue;
    }
    layouts.insert(item.entry);
    known.push_back(std::move(item));
  }
  llvm::for_each(known, [&](const Item &item) { push(item); });
}

void Search::BudgetQueue::push(const Item &item) {
  if (item.bound < search.best)
    items.push(item);
}

Search::BudgetQueue::Item Search::BudgetQueue::raise(Item item) {
  if (item.next == Step::Own && !search.open(*item.entry)) {
    item.bound = std::numeric_limits<double>::infinity(); // a pass refuses
    return item;
  }
  if (item.next != Step::Schedules)
    item.bound = std::max(
        item.bound, search.boundBudgetStages(*item.entry, item.shape, search.options.offloads));
  if (item.next != Step::Stages) {
    std::vector<double> bounds =
        search.boundBudgetSchedules(*item.entry, item.shape, search.options.offloads);
    if (!bounds.empty())
      item.bound = std::max(item.bound, *std::min_element(bounds.begin(), bounds.end()));
  }
  const bool wasOwn = item.next == Step::Own || (item.next == Step::Schedules && item.entry->times);
  item.next = wasOwn ? Step::None : Step(unsigned(item.next) + 1);
  return item;
}
