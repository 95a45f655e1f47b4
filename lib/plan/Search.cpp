// The search. Every layout gets one plan first, so that there is one to compare with; then layouts
// are gone through from the most promising on. What is left out is slower by its bound, and the
// least bound of what there was no time for is the bound of the whole.
#include "lib/plan/Search.h"

#include "lib/plan/Bound.h"
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/support/Error.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cmath>

using namespace cleave::plan;
using cleave::makeError;
namespace cost = cleave::cost;
namespace schedule = cleave::schedule;

/// Sums in another order differ by rounding.
static constexpr double rounding = 1e-9;

/// A layout and what is still to be looked at of it.
struct Search::Entry {
  LayoutReport report;
  std::vector<Shape> shapes; // not looked at yet
  double seconds = 0;        // of a microbatch's kernels, once it is partitioned
  bool isPartitioned = false;
};

const Candidate *SearchResult::getSmallest() const {
  auto memory = [](const Candidate &candidate) { return candidate.step.maxMemory(); };
  auto least = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const Candidate &a, const Candidate &b) { return memory(a) < memory(b); });
  return least == candidates.end() ? nullptr : &*least;
}

double Search::boundLayout(const Layout &layout) const {
  double microbatches = double(space.programs[layout.program].microbatches);
  double seconds = programs.getKernelSeconds(layout.program, double(layout.data * layout.tensor));
  return (cluster.device.stepSeconds +
          boundPipeline(seconds, double(layout.pipeline), microbatches, /*isPlain=*/false)) *
         (1 - rounding);
}

/// Each of these bytes is on some rank of the pipeline, in as many parts as the axes divide.
double Search::boundMemory(const Layout &layout) const {
  double parts = double(layout.tensor * layout.pipeline);
  if (layout.sharding != Sharding::Replicated)
    parts *= double(layout.data);
  return programs.getStateBytes(layout.program) / parts;
}

double Search::boundShape(const Shape &shape, double seconds) const {
  double microbatches = double(space.programs[shape.layout.program].microbatches);
  bool isPlain = shape.chunks == 1 && !shape.splitsBackward;
  return (cluster.device.stepSeconds +
          boundPipeline(seconds, double(shape.layout.pipeline), microbatches, isPlain)) *
         (1 - rounding);
}

llvm::Expected<Candidate> Search::simulate(const Plan &plan) {
  auto program = programs.stage(plan.shape);
  if (!program)
    return program.takeError();
  return simulate(plan, *program, std::numeric_limits<double>::infinity());
}

/// The schedule of a plan, as --build-schedule makes it.
static llvm::Expected<schedule::Schedule> makeSchedule(const Plan &plan, unsigned microbatches,
                                                       const StagedProgram &program) {
  schedule::BuildRequest request;
  request.ranks = unsigned(plan.shape.layout.pipeline);
  request.microbatches = microbatches;
  if (request.ranks > 1)
    request.stages = unsigned(program.work.stages.size());
  auto built = schedule::buildSchedule(plan.schedule, request);
  if (!built || request.ranks == 1)
    return built;
  if (llvm::Error error = program.complete(*built))
    return std::move(error);
  return built;
}

/// A plan that needs no simulation, since its bound is `best` or more, has no seconds.
llvm::Expected<Candidate> Search::simulate(const Plan &plan, const StagedProgram &program,
                                           double best) {
  auto microbatches = unsigned(space.programs[plan.shape.layout.program].microbatches);
  auto order = makeSchedule(plan, microbatches, program);
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
void Search::searchShape(Entry &entry, const Shape &shape) {
  std::vector<std::string> schedules = space.listSchedules(shape);
  auto program = programs.stage(shape);
  auto refuse = [&](llvm::Error error, size_t count) {
    result.numRefused += count;
    std::string reason = llvm::toString(std::move(error));
    if (entry.report.reason.empty())
      entry.report.reason = std::move(reason);
  };
  if (!program)
    return refuse(program.takeError(), schedules.size());
  double least = std::max(boundLayout(shape.layout), boundShape(shape, entry.seconds));
  for (const std::string &name : schedules) {
    if (isOver() && name != schedules.front()) {
      entry.shapes.insert(entry.shapes.begin(), shape); // not all of it was looked at
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
    for (double bound : {least, candidate->bound})
      if (seconds < bound)
        result.violations.push_back(llvm::formatv(
            "{0} with dp={1} tp={2} pp={3}: {4} s, bound {5} s", name, shape.layout.data,
            shape.layout.tensor, shape.layout.pipeline, seconds, bound));
    if (candidate->fits) {
      entry.report.best = std::min(entry.report.best.value_or(seconds), seconds);
      if (seconds < best) {
        best = seconds;
        if (options.report)
          options.report(*candidate);
      }
    }
    result.candidates.push_back(std::move(*candidate));
  }
}

/// Partitions the program of a layout. False if there is nothing to be searched.
bool Search::open(Entry &entry) {
  if (entry.isPartitioned)
    return true;
  auto seconds = programs.partition(entry.report.layout);
  if (!seconds) {
    entry.report.kind = LayoutReport::Impossible;
    entry.report.reason = llvm::toString(seconds.takeError());
    for (const Shape &shape : entry.shapes)
      result.numRefused += space.listSchedules(shape).size();
    entry.shapes.clear();
    return false;
  }
  entry.isPartitioned = true;
  entry.seconds = *seconds;
  const Layout &layout = entry.report.layout;
  double least = programs.getKernelSeconds(layout.program, double(layout.data * layout.tensor));
  if (*seconds < least * (1 - rounding))
    result.violations.push_back(llvm::formatv("kernels with dp={0} tp={1}: {2} s, bound {3} s",
                                              layout.data, layout.tensor, *seconds, least));
  return true;
}

/// Looks at all shapes that are left.
void Search::searchRest(Entry &entry) {
  while (!entry.shapes.empty()) {
    Shape shape = entry.shapes.front();
    double bound = entry.report.bound;
    if (entry.isPartitioned)
      bound = std::max(bound, boundShape(shape, entry.seconds));
    if (!options.isExhaustive && bound >= best) {
      result.numClosed += space.listSchedules(shape).size();
      entry.shapes.erase(entry.shapes.begin());
      continue;
    }
    if (isOver() || !open(entry))
      return;
    entry.shapes.erase(entry.shapes.begin());
    searchShape(entry, shape);
  }
  if (entry.report.kind == LayoutReport::Open)
    entry.report.kind = LayoutReport::Searched;
}

/// Where nothing fits: looks for the least memory among what was left out as too large.
void Search::searchMemory(std::vector<Entry> &entries) {
  llvm::stable_sort(entries, [](const Entry &a, const Entry &b) {
    return a.report.memoryBound < b.report.memoryBound;
  });
  result.memoryBound = std::numeric_limits<double>::infinity();
  for (Entry &entry : entries) {
    if (entry.report.kind != LayoutReport::TooLarge)
      continue;
    const Candidate *smallest = result.getSmallest();
    if (smallest && entry.report.memoryBound >= smallest->step.maxMemory())
      continue;
    std::vector<Shape> shapes = entry.shapes;
    for (const Shape &shape : shapes) {
      if (isOver())
        break;
      if (!open(entry))
        break;
      entry.shapes.erase(entry.shapes.begin());
      searchShape(entry, shape);
    }
  }
  // What there was no time for needs what its layout needs.
  for (const Entry &entry : entries)
    if (!entry.shapes.empty() &&
        (entry.report.kind == LayoutReport::TooLarge || entry.report.kind == LayoutReport::Open))
      result.memoryBound = std::min(result.memoryBound, entry.report.memoryBound);
  if (const Candidate *smallest = result.getSmallest())
    result.memoryBound = std::min(result.memoryBound, smallest->step.maxMemory());
}

void Search::finish(std::vector<Entry> &entries) {
  llvm::stable_sort(result.candidates, [](const Candidate &a, const Candidate &b) {
    return std::make_pair(!a.fits, a.step.seconds) < std::make_pair(!b.fits, b.step.seconds);
  });
  result.bound = best;
  result.isComplete = true;
  for (Entry &entry : entries) {
    LayoutReport &report = entry.report;
    if (report.kind == LayoutReport::Searched && !report.best && report.reason.empty())
      report.kind = LayoutReport::Closed;
    if (report.kind == LayoutReport::Open) {
      result.isComplete = false;
      for (const Shape &shape : entry.shapes)
        result.bound =
            std::min(result.bound, entry.isPartitioned
                                       ? std::max(report.bound, boundShape(shape, entry.seconds))
                                       : report.bound);
    }
    result.layouts.push_back(std::move(report));
  }
}

/// Whether one device cannot hold parameters and optimizer states.
bool Search::isLarge(unsigned program) const {
  return programs.getStateBytes(program) > options.memory;
}

/// In which order layouts with the same bound are looked at, the smallest first: little
/// communication first; of large models what divides a layer over a node.
std::tuple<bool, double, bool, int64_t> Search::rankLayout(const Layout &layout) const {
  double unit = space.unit > 0 ? double(space.unit) : 8;
  bool isLarge = this->isLarge(layout.program);
  double distance = isLarge ? std::abs(std::log2(double(layout.tensor) / unit))
                            : double(layout.tensor * layout.tensor * layout.pipeline);
  return {double(layout.tensor) > unit, distance, layout.sequence != isLarge, layout.pipeline};
}

SearchResult Search::run() {
  std::vector<Entry> entries;
  for (const Layout &layout : space.listLayouts()) {
    Entry &entry = entries.emplace_back();
    entry.report.layout = layout;
    entry.report.bound = boundLayout(layout);
    entry.report.memoryBound = boundMemory(layout);
    entry.shapes = space.listShapes(layout);
    if (entry.report.memoryBound > options.memory && !options.isExhaustive)
      entry.report.kind = LayoutReport::TooLarge;
  }
  llvm::erase_if(entries, [](const Entry &entry) { return entry.shapes.empty(); });
  for (Entry &entry : entries)
    if (isLarge(entry.report.layout.program))
      std::stable_partition(entry.shapes.begin(), entry.shapes.end(),
                            [](const Shape &shape) { return shape.recompute == Recompute::Full; });
  llvm::stable_sort(entries, [&](const Entry &a, const Entry &b) {
    return rankLayout(a.report.layout) < rankLayout(b.report.layout);
  });
  for (Entry &entry : entries) {
    if (entry.report.kind != LayoutReport::Open || isOver())
      continue;
    if ((!options.isExhaustive && entry.report.bound >= best) || !open(entry))
      continue;
    Shape shape = entry.shapes.front();
    if (!options.isExhaustive && boundShape(shape, entry.seconds) >= best)
      continue;
    entry.shapes.erase(entry.shapes.begin());
    double before = best;
    searchShape(entry, shape);
    if (best < before)
      searchRest(entry);
  }
  constexpr double never = std::numeric_limits<double>::infinity();
  llvm::stable_sort(entries, [&](const Entry &a, const Entry &b) {
    return a.report.best.value_or(never) < b.report.best.value_or(never);
  });
  for (Entry &entry : entries)
    if (entry.report.kind == LayoutReport::Open)
      searchRest(entry);
  if (std::isinf(best))
    searchMemory(entries);
  finish(entries);
  return std::move(result);
}
