// The search. It finds a plan that fits, so that there is one to compare with; then it looks at
// what has the least bound, until no bound is below the best. The least bound of what there was no
// time for is the bound of the whole.
#include "lib/plan/SearchEntry.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace cleave::plan;

Search::Search(const Space &space, const cost::Cluster &cluster, Programs &programs,
               const SearchOptions &options)
    : space(space), cluster(cluster), programs(programs), options(options) {}
Search::~Search() = default;

const Candidate *SearchResult::getSmallest() const {
  auto memory = [](const Candidate &candidate) { return candidate.step.maxMemory(); };
  auto least = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const Candidate &a, const Candidate &b) { return memory(a) < memory(b); });
  return least == candidates.end() ? nullptr : &*least;
}

/// Simulates the plans of a shape, but for those that are slower by their bounds.
void Search::search(Entry &entry, size_t work) {
  while (!entry.works[work].isRefined())
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
        result.violations.push_back(llvm::formatv("{0} with {1} pp={2}: {3} s, bound {4} s", name,
                                                  describe(shape.layout), shape.layout.pipeline,
                                                  seconds, bound));
    if (candidate->step.maxMemory() < candidate->memoryBound)
      result.violations.push_back(llvm::formatv(
          "{0} with {1} pp={2}: {3} bytes, bound {4}", name, describe(shape.layout),
          shape.layout.pipeline, candidate->step.maxMemory(), candidate->memoryBound));
    if (!candidate->fits && std::isinf(best) && options.report)
      if (const Candidate *smallest = result.getSmallest();
          !smallest || candidate->step.maxMemory() < smallest->step.maxMemory())
        options.report(*candidate);
    if (candidate->fits)
      entry.report.best = std::min(entry.report.best.value_or(seconds), seconds);
    add(std::move(*candidate));
  }
}

/// Keeps a plan that was simulated.
void Search::add(Candidate candidate) {
  if (candidate.fits && candidate.step.seconds < best) {
    best = candidate.step.seconds;
    bestPlan = candidate.plan;
    if (options.report)
      options.report(candidate);
  }
  result.candidates.push_back(std::move(candidate));
}

/// Leaves a shape out: it is slower by its bound.
void Search::close(Entry &entry, size_t work) {
  if (entry.works[work].isDone)
    return;
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
    for (const Work &work : entry.works)
      if (!work.isDone)
        result.numRefused += space.listSchedules(work.shape).size();
    entry.works.clear();
    return false;
  }
  entry.times = std::move(*times);
  check(entry, programs.timeGlobal(layout.program, layout.numParts()), *entry.times);
  if (options.isExhaustive) {
    raiseUnshared(entry);
    raiseUndivided(entry);
    for (Recompute recompute : allRecomputes)
      raiseRecomputed(entry, recompute);
  }
  for (const std::optional<LayerTimes> *bound : {&entry.unshared, &entry.undivided})
    if (*bound)
      check(entry, **bound, *entry.times);
  raiseBounds(entry, *entry.times);
  return true;
}

/// Simulates the shapes of a layout with the least bounds until one fits. Says whether one does.
bool Search::tryLayout(Entry &entry) {
  raiseUndivided(entry);
  while (!isOver()) {
    const Work *least = entry.findLeast();
    if (!least)
      break;
    auto work = size_t(least - entry.works.data());
    if (!least->undivided) {
      raiseSampled(entry, work);
      continue;
    }
    if (!open(entry))
      break;
    if (!entry.works[work].isRefined()) {
      refine(entry, work);
      continue;
    }
    search(entry, work);
    if (!std::isinf(best))
      return true;
  }
  return false;
}

/// Looks for a plan that fits, for a part of the time. What is not found by then may need the
/// shapes that hold least.
void Search::searchFirst() {
  constexpr double part = 1.0 / 3;
  const double end =
      options.timer ? part * options.timer->getLimit() : std::numeric_limits<double>::infinity();
  std::vector<Entry *> order;
  for (Entry &entry : entries)
    if (entry.report.kind == LayoutReport::Open)
      order.push_back(&entry);
  llvm::stable_sort(order, [&](const Entry *a, const Entry *b) {
    return rankLayout(a->report.layout) < rankLayout(b->report.layout);
  });
  for (Entry *entry : order)
    if (isOver() || now() >= end || tryLayout(*entry))
      break;
}

/// Those that fit before others, the fastest first.
void Search::sortCandidates() {
  llvm::stable_sort(result.candidates, [](const Candidate &a, const Candidate &b) {
    return std::make_pair(!a.fits, a.step.seconds) < std::make_pair(!b.fits, b.step.seconds);
  });
}

void Search::finish() {
  result.bound = best;
  result.isComplete = true;
  for (Entry &entry : entries) {
    LayoutReport &report = entry.report;
    if (report.kind == LayoutReport::Open) {
      double left = std::numeric_limits<double>::infinity();
      for (const Work &work : entry.works)
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
  double unit = space.getUnit() > 0 ? double(space.getUnit()) : 8;
  bool isLarge = this->isLarge(layout.program);
  // Experts divide most of a layer, and ranks that share them exchange no more where they are many.
  double inside =
      std::min(double(layout.tensor * layout.experts), std::max(unit, double(layout.tensor)));
  double distance = isLarge ? std::abs(std::log2(inside / unit))
                            : double(layout.tensor * layout.tensor * layout.pipeline);
  distance += double(layout.context - 1);
  // Where they exchange rows they divide what `tp` would, with less communication.
  if (space.programs[layout.program].sortsRows)
    distance += double(layout.tensor - 1);
  return {double(layout.tensor) > unit, distance, layout.sequence != isLarge, layout.pipeline};
}

SearchResult Search::run() {
  keepsTime = triesBudgets();
  for (const Layout &layout : space.listLayouts()) {
    Entry &entry = entries.emplace_back();
    entry.report.layout = layout;
    entry.report.bound = boundLayout(layout);
    entry.report.memoryBound = boundMemory(layout);
    for (const Shape &shape : space.listShapes(layout))
      entry.works.push_back({shape, entry.report.bound, entry.report.memoryBound});
    raiseBounds(entry, programs.timeGlobal(layout.program, layout.numParts()));
    if (entry.report.memoryBound > options.memory && !options.isExhaustive)
      entry.report.kind = LayoutReport::TooLarge;
  }
  llvm::erase_if(entries, [](const Entry &entry) { return entry.works.empty(); });
  if (!options.isExhaustive)
    searchFirst();
  if (std::isinf(best) && !options.isExhaustive)
    searchMemory();
  if (!std::isinf(best) && !options.isExhaustive)
    searchNear();
  searchRest();
  if (std::isinf(best) && options.isExhaustive)
    searchMemory();
  finish();
  searchBudgets();
  sortCandidates();
  return std::move(result);
}
