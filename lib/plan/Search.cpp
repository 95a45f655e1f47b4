// The search. From one plan that fits it goes to ever better ones that differ in a word or two, so
// that there is one to compare with; then it looks at what has the least bound, until no bound is
// below the best. The least bound of what there was no time for is the bound of the whole.
#include "lib/plan/Search.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/support/Error.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

using namespace cleave::plan;
using cleave::makeError;
namespace cost = cleave::cost;
namespace schedule = cleave::schedule;

/// A layout and what is still to be looked at of it.
struct Search::Entry {
  LayoutReport report;
  struct Work {
    Shape shape;
    /// Seconds, infinite where it does not fit; bytes.
    double bound = 0, memory = 0;
    bool isDone = false;
    /// By schedule, once samples of its stages were looked at.
    std::optional<std::vector<PlanBound>> schedules;
  };
  std::vector<Work> works;
  std::optional<LayerTimes> times; // once it is partitioned
};

Search::Search(const Space &space, const cost::Cluster &cluster, Programs &programs,
               const SearchOptions &options)
    : space(space), cluster(cluster), programs(programs), options(options) {}
Search::~Search() = default;

KernelTime LayerTimes::sum() const {
  KernelTime sum = shared;
  for (const std::vector<KernelTime> *pass : {&forward, &backward})
    for (const KernelTime &layer : *pass)
      sum += layer;
  return sum;
}

const Candidate *SearchResult::getSmallest() const {
  auto memory = [](const Candidate &candidate) { return candidate.step.maxMemory(); };
  auto least = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const Candidate &a, const Candidate &b) { return memory(a) < memory(b); });
  return least == candidates.end() ? nullptr : &*least;
}

double Search::boundLayout(const Layout &layout) const {
  double microbatches = double(space.programs[layout.program].microbatches);
  double seconds = programs.getKernelTime(layout.program, double(layout.numParts())).seconds();
  double step = boundPipeline(seconds, double(layout.pipeline), microbatches, /*isPlain=*/false);
  if (layout.sharding == Sharding::Fsdp) {
    // Of the ranks of the pipeline one holds this much at least. A function takes as long as its
    // communications, which follow each other.
    double bytes = programs.getShardedBytes(layout.program, layout.numParts()) /
                   double(layout.tensor * layout.pipeline);
    cost::Group group{layout.data * layout.context, layout.dataInside ? 1 : layout.tensor};
    step = std::max(step, microbatches *
                              (timeOf(cluster, cost::Collective::AllGather, group, bytes) +
                               timeOf(cluster, cost::Collective::ReduceScatter, group, bytes)));
  }
  return (cluster.device.stepSeconds + step) * (1 - rounding);
}

/// Each of these bytes is on some rank of the pipeline, in as many parts as the axes divide.
double Search::boundMemory(const Layout &layout) const {
  double parts = double(layout.tensor * layout.pipeline);
  double sharers = double(layout.data * layout.context);
  ProgramBytes bytes = programs.getBytes(layout.program);
  bool shardsStates = layout.sharding != Sharding::Replicated;
  bool shardsParameters = shardsStates && layout.sharding != Sharding::Zero1;
  // Gradients that are scattered once are whole until then.
  bool shardsGradients = layout.sharding == Sharding::Fsdp;
  return bytes.parameters / (shardsParameters ? parts * sharers : parts) +
         bytes.gradients / (shardsGradients ? parts * sharers : parts) +
         bytes.states / (shardsStates ? parts * sharers : parts);
}

/// What ranks of the pipeline hold on average: each stage keeps what one microbatch saves at least.
double Search::boundMemory(const Shape &shape, const LayerTimes &times) const {
  const std::vector<double> &saved = times.recomputed[size_t(shape.recompute)].savedBytes;
  return (boundMemory(shape.layout) +
          std::accumulate(saved.begin(), saved.end(), 0.0) / double(shape.layout.pipeline)) *
         (1 - rounding);
}

/// The least bound of the ways in which schedules lay the stages on ranks.
double Search::boundShape(const Shape &shape, const LayerTimes &times) const {
  double microbatches = double(space.programs[shape.layout.program].microbatches);
  simulate::CostTable costs;
  costs.stages.assign(size_t(shape.numStages()), simulate::StageCost{0, 0, 0, 0});
  std::vector<int64_t> cuts = space.listCuts(shape);
  cuts.push_back(int64_t(times.forward.size()));
  const std::vector<KernelTime> &recomputed = times.recomputed[size_t(shape.recompute)].backward;
  const std::vector<KernelTime> &backwards = recomputed.empty() ? times.backward : recomputed;
  size_t layer = 0;
  for (auto [cut, cost] : llvm::zip_equal(cuts, costs.stages)) {
    KernelTime forward, backward;
    for (; layer < size_t(cut); ++layer) {
      forward += times.forward[layer];
      backward += backwards[layer];
    }
    cost.forward = forward.seconds();
    // Which part of a split backward makes the input's gradient is not known.
    (shape.splitsBackward ? cost.weight : cost.backward) = backward.seconds();
  }
  auto ranks = unsigned(shape.layout.pipeline), stages = unsigned(shape.numStages());
  double least = std::numeric_limits<double>::infinity();
  for (auto style : {schedule::TopologyStyle::Loop, schedule::TopologyStyle::V}) {
    auto topology = schedule::Topology::get(style, ranks, stages);
    if (!topology) {
      llvm::consumeError(topology.takeError());
      continue;
    }
    least = std::min(least, boundSchedule(costs, *topology, microbatches, shape.splitsBackward,
                                          /*hasUpdates=*/false));
  }
  return (cluster.device.stepSeconds + least) * (1 - rounding);
}

std::vector<PlanBound> Search::boundSchedules(const Shape &shape) {
  const StageSamples *samples = programs.sampleStages(shape);
  if (!samples)
    return {};
  return cleave::plan::boundSchedules(space, cluster, shape, *samples);
}

/// Raises the bounds of a shape by what samples of its stages say.
void Search::refine(Entry &entry, size_t number) {
  Entry::Work &work = entry.works[number];
  if (work.schedules)
    return;
  work.schedules = boundSchedules(work.shape);
  if (work.schedules->empty() || options.isExhaustive)
    return;
  PlanBound least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (const PlanBound &bound : *work.schedules) {
    if (bound.memory <= options.memory)
      least.seconds = std::min(least.seconds, bound.seconds);
    least.memory = std::min(least.memory, bound.memory);
  }
  work.bound = std::max(work.bound, least.seconds);
  work.memory = std::max(work.memory, least.memory);
}

llvm::Expected<Candidate> Search::simulate(const Plan &plan) {
  auto program = programs.stage(plan.shape);
  if (!program)
    return program.takeError();
  auto candidate = simulate(plan, *program, std::numeric_limits<double>::infinity());
  if (!candidate)
    return candidate;
  for (auto [name, bound] : llvm::zip(space.listSchedules(plan.shape), boundSchedules(plan.shape)))
    if (name == plan.schedule) {
      candidate->bound = std::max(candidate->bound, bound.seconds);
      candidate->memoryBound = bound.memory;
    }
  return candidate;
}

/// Compares the stages of a whole program to what follows for them from samples.
llvm::Error Search::confirmSamples(const Shape &shape, const simulate::ProgramWork &whole,
                                   bool isExact) {
  const StageSamples *samples = programs.sampleStages(shape);
  if (!samples)
    return llvm::Error::success();
  // FSDP's communication is not in samples.
  isExact &= shape.layout.sharding != Sharding::Fsdp;
  std::vector<int64_t> ends = space.listCuts(shape);
  ends.push_back(space.programs[shape.layout.program].layers);
  int64_t begin = 0;
  for (auto [end, stage] : llvm::zip_equal(ends, describeStages(cluster, whole))) {
    std::optional<StageSample> sample = samples->get(begin, end);
    if (!sample)
      return llvm::Error::success();
    for (auto [name, pass] : {std::pair("forward", &StageSample::forward),
                              {"backward", &StageSample::backward},
                              {"input gradient", &StageSample::input},
                              {"weight gradient", &StageSample::weight}}) {
      double found = (stage.*pass).seconds(), expected = (sample.value().*pass).seconds();
      double slack = rounding * expected;
      if (found < expected - slack || (isExact && found > expected + slack))
        return makeError("the {0} of layers {1} to {2} takes {3:e9} s, by samples {4:e9} s", name,
                         begin, end - 1, found, expected);
    }
    double slack = rounding * sample->savedBytes;
    if (stage.savedBytes < sample->savedBytes - slack ||
        (isExact && stage.savedBytes > sample->savedBytes + slack))
      return makeError("layers {0} to {1} keep {2} bytes, by samples {3}", begin, end - 1,
                       stage.savedBytes, sample->savedBytes);
    begin = end;
  }
  return llvm::Error::success();
}

llvm::Error Search::confirm(const Candidate &candidate, bool isExact) {
  auto program = programs.stageWhole(candidate.plan.shape);
  if (!program)
    return program.takeError();
  if (llvm::Error error = confirmSamples(candidate.plan.shape, program->work, isExact))
    return error;
  auto whole = simulate(candidate.plan, *program, std::numeric_limits<double>::infinity());
  if (!whole)
    return whole.takeError();
  auto isSame = [](double a, double b) { return std::abs(a - b) <= rounding * std::abs(b); };
  if (!isSame(whole->step.seconds, candidate.step.seconds))
    return makeError("{0} s with one of equal layers, {1} s with all of them",
                     candidate.step.seconds, whole->step.seconds);
  if (!isSame(whole->step.maxMemory(), candidate.step.maxMemory()))
    return makeError("{0} bytes with one of equal layers, {1} bytes with all of them",
                     candidate.step.maxMemory(), whole->step.maxMemory());
  return llvm::Error::success();
}

/// The schedule of a plan, as --build-schedule makes it.
static llvm::Expected<schedule::Schedule> makeSchedule(const Plan &plan, const Space &space,
                                                       const StagedProgram &program) {
  auto built = orderPasses(plan, space, unsigned(program.work.stages.size()));
  if (!built || built->numRanks() == 1)
    return built;
  if (llvm::Error error = program.complete(*built))
    return std::move(error);
  return built;
}

/// A plan that needs no simulation, since its bound is `best` or more, has no seconds.
llvm::Expected<Candidate> Search::simulate(const Plan &plan, const StagedProgram &program,
                                           double best) {
  auto microbatches = unsigned(space.programs[plan.shape.layout.program].microbatches);
  auto order = makeSchedule(plan, space, program);
  if (!order)
    return order.takeError();
  simulate::RunOptions run;
  run.simulation.model = schedule::CommModel::gloo();
  run.schedulesReductions = simulate::hasReductions(*order);
  std::vector<simulate::StageTime> times = simulate::timeStages(cluster, program.work, run);
  simulate::CostTable costs = simulate::costsOfStages(cluster, program.work, times);
  Candidate candidate{plan};
  candidate.bound = cluster.device.stepSeconds +
                    1e-3 * boundSchedule(costs, order->topology, microbatches,
                                         plan.shape.splitsBackward, simulate::hasUpdates(*order));
  candidate.bound *= 1 - rounding;
  if (candidate.bound >= best)
    return candidate;
  if (order->numRanks() > 1) {
    auto explicitOrder = schedule::insertP2P(*order);
    if (!explicitOrder)
      return explicitOrder.takeError();
    order = std::move(explicitOrder);
  }
  auto timeline = simulate::simulate(*order, costs, run.simulation);
  if (!timeline)
    return timeline.takeError();
  candidate.step = simulate::describeStep(cluster, program.work, *order, times,
                                          simulate::measure(*order, *timeline));
  candidate.fits = candidate.step.maxMemory() <= options.memory;
  return candidate;
}

/// Simulates the plans of a shape, but for those that are slower by their bounds.
void Search::search(Entry &entry, size_t work) {
  refine(entry, work);
  const Shape shape = entry.works[work].shape;
  const std::vector<PlanBound> &bounds = *entry.works[work].schedules;
  std::vector<std::string> schedules = space.listSchedules(shape);
  auto isOut = [&](size_t number) {
    // Where nothing was found that fits, what does not is looked at for its memory.
    return !options.isExhaustive && !bounds.empty() && !std::isinf(best) &&
           (bounds[number].seconds >= best || bounds[number].memory > options.memory);
  };
  auto program = programs.stage(shape);
  auto refuse = [&](llvm::Error error, size_t count) {
    result.numRefused += count;
    std::string reason = llvm::toString(std::move(error));
    if (entry.report.reason.empty())
      entry.report.reason = std::move(reason);
  };
  entry.works[work].isDone = true;
  if (!program)
    return refuse(program.takeError(), schedules.size());
  for (auto [number, name] : llvm::enumerate(schedules)) {
    if (isOut(number)) {
      ++result.numClosed;
      continue;
    }
    if (isOver() && name != schedules.front()) {
      entry.works[work].isDone = false; // not all of it was looked at
      return;
    }
    auto candidate =
        simulate({shape, name}, *program,
                 options.isExhaustive ? std::numeric_limits<double>::infinity() : best);
    if (!candidate) {
      refuse(candidate.takeError(), 1);
      continue;
    }
    if (candidate->step.seconds == 0) {
      ++result.numClosed;
      continue;
    }
    double seconds = candidate->step.seconds;
    PlanBound sampled = bounds.empty() ? PlanBound() : bounds[number];
    candidate->bound = std::max(candidate->bound, sampled.seconds);
    candidate->memoryBound = std::max(entry.works[work].memory, sampled.memory);
    // A shape's bound is one of its plans that fit.
    double ofShape = candidate->fits ? entry.works[work].bound : 0;
    for (double bound : {boundLayout(shape.layout), ofShape, candidate->bound})
      if (seconds < bound)
        result.violations.push_back(llvm::formatv(
            "{0} with dp={1} tp={2} pp={3} cp={4}: {5} s, bound {6} s", name, shape.layout.data,
            shape.layout.tensor, shape.layout.pipeline, shape.layout.context, seconds, bound));
    if (candidate->step.maxMemory() < candidate->memoryBound)
      result.violations.push_back(
          llvm::formatv("{0} with dp={1} tp={2} pp={3} cp={4}: {5} bytes, bound {6}", name,
                        shape.layout.data, shape.layout.tensor, shape.layout.pipeline,
                        shape.layout.context, candidate->step.maxMemory(), candidate->memoryBound));
    if (candidate->fits) {
      entry.report.best = std::min(entry.report.best.value_or(seconds), seconds);
      if (seconds < best) {
        best = seconds;
        bestPlan = candidate->plan;
        if (options.report)
          options.report(*candidate);
      }
    }
    result.candidates.push_back(std::move(*candidate));
  }
}

/// Leaves a shape out: it is slower by its bound.
void Search::close(Entry &entry, size_t work) {
  result.numClosed += space.listSchedules(entry.works[work].shape).size();
  entry.works[work].isDone = true;
}

/// Partitions the program of a layout. False if there is nothing to be searched.
bool Search::open(Entry &entry) {
  if (entry.times)
    return true;
  const Layout &layout = entry.report.layout;
  auto times = programs.partition(layout);
  if (!times) {
    entry.report.kind = LayoutReport::Impossible;
    entry.report.reason = llvm::toString(times.takeError());
    for (const Entry::Work &work : entry.works)
      if (!work.isDone)
        result.numRefused += space.listSchedules(work.shape).size();
    entry.works.clear();
    return false;
  }
  entry.times = std::move(*times);
  KernelTime least = programs.getKernelTime(layout.program, double(layout.numParts()));
  KernelTime found = entry.times->sum();
  if (found.device < least.device * (1 - rounding) || found.host < least.host * (1 - rounding))
    result.violations.push_back(llvm::formatv(
        "kernels with dp={0} tp={1} cp={2}: {3} s, launched in {4} s, bounds {5} s and {6} s",
        layout.data, layout.tensor, layout.context, found.device, found.host, least.device,
        least.host));
  for (Entry::Work &work : entry.works) {
    work.bound = std::max(work.bound, boundShape(work.shape, *entry.times));
    work.memory = boundMemory(work.shape, *entry.times);
    if (work.memory > options.memory && !options.isExhaustive)
      work.bound = std::numeric_limits<double>::infinity();
  }
  return true;
}

/// Whether two layouts differ in a word or two: a factor goes from one axis to another, or the axes
/// are the same.
static bool isNear(const Layout &a, const Layout &b) {
  unsigned larger = 0, smaller = 0;
  int64_t product = 1;
  for (auto axis : {&Layout::data, &Layout::tensor, &Layout::pipeline, &Layout::context}) {
    int64_t high = std::max(a.*axis, b.*axis), low = std::min(a.*axis, b.*axis);
    if (high == low)
      continue;
    if (high % low || high / low > 4)
      return false;
    (a.*axis > b.*axis ? larger : smaller) += 1;
    product *= high / low;
  }
  if (larger == 0 && smaller == 0)
    return true;
  return larger == 1 && smaller == 1 && a.program == b.program && a.sequence == b.sequence &&
         a.sharding == b.sharding && a.dataInside == b.dataInside;
}

/// Looks for a plan that fits, and from there on for better ones among those like the best.
void Search::climb() {
  std::vector<Entry *> order;
  for (Entry &entry : entries)
    if (entry.report.kind == LayoutReport::Open)
      order.push_back(&entry);
  llvm::stable_sort(order, [&](const Entry *a, const Entry *b) {
    return rankLayout(a->report.layout) < rankLayout(b->report.layout);
  });
  // Simulates the shapes of a layout with the least bounds, until some are not better: those do not
  // fit, or communicate more than their bounds know.
  constexpr unsigned maxWorse = 6;
  auto tryLayout = [&](Entry &entry) {
    if (isOver() || entry.report.bound >= best || !open(entry))
      return false;
    std::vector<size_t> works;
    for (size_t work = 0; work < entry.works.size() && !isOver(); ++work) {
      if (entry.works[work].isDone || entry.works[work].bound >= best)
        continue;
      refine(entry, work);
      works.push_back(work);
    }
    llvm::stable_sort(
        works, [&](size_t a, size_t b) { return entry.works[a].bound < entry.works[b].bound; });
    bool isBetter = false;
    unsigned numWorse = 0;
    for (size_t work : works) {
      if (isOver() || entry.works[work].bound >= best)
        break;
      double before = best;
      search(entry, work);
      isBetter |= best < before;
      numWorse = best < before ? 0 : numWorse + 1;
      if (numWorse == maxWorse && !std::isinf(best))
        break;
    }
    return isBetter;
  };
  for (Entry *entry : order)
    if (isOver() || tryLayout(*entry))
      break;
  for (bool hasChanged = !std::isinf(best); hasChanged && !isOver();) {
    hasChanged = false;
    const Layout from = bestPlan.shape.layout;
    for (Entry *entry : order)
      if (isNear(entry->report.layout, from))
        hasChanged |= tryLayout(*entry);
  }
}

/// A layout that is not partitioned yet, or a shape of one.
struct Search::Item {
  double bound;
  size_t entry;
  std::optional<size_t> work;

  bool operator>(const Item &other) const {
    return std::tie(bound, entry, work) > std::tie(other.bound, other.entry, other.work);
  }
};

/// Looks at what is left, the least bound first.
void Search::searchRest() {
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  auto push = [&](size_t number) {
    Entry &entry = entries[number];
    if (!entry.times)
      return queue.push({entry.report.bound, number, std::nullopt});
    for (size_t work = 0; work < entry.works.size(); ++work)
      if (!entry.works[work].isDone && !std::isinf(entry.works[work].bound))
        queue.push({entry.works[work].bound, number, work});
  };
  for (size_t number = 0; number < entries.size(); ++number)
    if (entries[number].report.kind == LayoutReport::Open)
      push(number);
  while (!queue.empty() && !isOver()) {
    Item item = queue.top();
    queue.pop();
    Entry &entry = entries[item.entry];
    bool isSlow = !options.isExhaustive && item.bound >= best;
    if (item.work && isSlow)
      close(entry, *item.work);
    else if (item.work && !entry.works[*item.work].schedules) {
      refine(entry, *item.work);
      if (double bound = entry.works[*item.work].bound; !std::isinf(bound))
        queue.push({bound, item.entry, item.work});
    } else if (item.work)
      search(entry, *item.work);
    else if (isSlow)
      for (size_t work = 0; work < entry.works.size(); ++work)
        close(entry, work);
    else if (open(entry))
      push(item.entry);
  }
}

/// Where nothing fits: looks for the least memory among what was left out as too large.
void Search::searchMemory() {
  using Place = std::tuple<double, size_t, size_t>; // least bytes, entry, work
  std::priority_queue<Place, std::vector<Place>, std::greater<>> queue;
  auto push = [&](size_t number) {
    const Entry &entry = entries[number];
    for (size_t work = 0; work < entry.works.size(); ++work)
      if (!entry.works[work].isDone)
        queue.push({entry.works[work].memory, number, work});
  };
  for (size_t number = 0; number < entries.size(); ++number)
    push(number);
  result.memoryBound = std::numeric_limits<double>::infinity();
  for (; !queue.empty(); queue.pop()) {
    auto [memory, number, work] = queue.top();
    const Candidate *smallest = result.getSmallest();
    if (isOver() || (smallest && memory >= smallest->step.maxMemory())) {
      result.memoryBound = memory; // of all that is left
      break;
    }
    Entry &entry = entries[number];
    if (entry.works.empty() || entry.works[work].isDone || entry.works[work].memory > memory)
      continue; // was refused, or is in the queue with what is known by now
    bool isNew = !entry.times;
    if (!open(entry))
      continue;
    if (isNew)
      push(number);
    else
      search(entry, work);
  }
  if (const Candidate *smallest = result.getSmallest())
    result.memoryBound = std::min(result.memoryBound, smallest->step.maxMemory());
}

void Search::finish() {
  llvm::stable_sort(result.candidates, [](const Candidate &a, const Candidate &b) {
    return std::make_pair(!a.fits, a.step.seconds) < std::make_pair(!b.fits, b.step.seconds);
  });
  result.bound = best;
  result.isComplete = true;
  for (Entry &entry : entries) {
    LayoutReport &report = entry.report;
    if (report.kind == LayoutReport::Open) {
      double left = std::numeric_limits<double>::infinity();
      for (const Entry::Work &work : entry.works)
        if (!work.isDone) {
          left = std::min(left, std::max(work.bound, report.bound));
          if (std::isinf(work.bound) && !std::isinf(best))
            result.numClosed += space.listSchedules(work.shape).size();
        }
      if (left < best) {
        result.isComplete = false;
        report.bound = left;
        result.bound = std::min(result.bound, left);
      } else {
        report.kind =
            report.best || !report.reason.empty() ? LayoutReport::Searched : LayoutReport::Closed;
      }
    }
    result.layouts.push_back(report);
  }
}

/// Whether one device cannot hold parameters and optimizer states.
bool Search::isLarge(unsigned program) const {
  return programs.getBytes(program).sum() > options.memory;
}

/// In which order layouts with the same bound are looked at, the smallest first: little
/// communication first; of large models what divides a layer over a node.
std::tuple<bool, double, bool, int64_t> Search::rankLayout(const Layout &layout) const {
  double unit = space.unit > 0 ? double(space.unit) : 8;
  bool isLarge = this->isLarge(layout.program);
  double distance = isLarge ? std::abs(std::log2(double(layout.tensor) / unit))
                            : double(layout.tensor * layout.tensor * layout.pipeline);
  distance += double(layout.context - 1);
  return {double(layout.tensor) > unit, distance, layout.sequence != isLarge, layout.pipeline};
}

SearchResult Search::run() {
  for (const Layout &layout : space.listLayouts()) {
    Entry &entry = entries.emplace_back();
    entry.report.layout = layout;
    entry.report.bound = boundLayout(layout);
    entry.report.memoryBound = boundMemory(layout);
    for (const Shape &shape : space.listShapes(layout))
      entry.works.push_back({shape, entry.report.bound, entry.report.memoryBound});
    if (entry.report.memoryBound > options.memory && !options.isExhaustive)
      entry.report.kind = LayoutReport::TooLarge;
  }
  llvm::erase_if(entries, [](const Entry &entry) { return entry.works.empty(); });
  if (!options.isExhaustive)
    climb();
  searchRest();
  if (std::isinf(best))
    searchMemory();
  finish();
  return std::move(result);
}
