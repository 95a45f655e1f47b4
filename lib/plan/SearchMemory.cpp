// What a search looks at where nothing was found that fits: what holds least.
#include "lib/plan/SearchEntry.h"

#include "llvm/ADT/STLExtras.h"

#include <map>
#include <queue>

using namespace cleave::plan;

/// Where nothing was found that fits: what holds least, first. Samples say what shapes hold before
/// any is carried out.
class Search::MemoryQueue {
public:
  explicit MemoryQueue(Search &search) : search(search) {
    learn(0);
    for (size_t number = 0; number < search.entries.size(); ++number)
      push(number);
  }

  /// Until a plan fits, or none that is left holds less than the one that holds least, or the time
  /// is over. Returns what is left needs at the least, in bytes.
  double run() {
    const double start = search.now();
    while (!items.empty() && std::isinf(search.best)) {
      auto [memory, number, work] = items.top();
      const Entry &entry = search.entries[number];
      if (!isOpen(number, work)) {
        items.pop();
        continue;
      }
      if (double now = entry.works[work].memory; now > memory) {
        items.pop();
        items.push({now, number, work});
        continue;
      }
      if (search.isOver() || memory >= least)
        return memory;
      if (carryOut(start) || sample())
        continue;
      items.pop();
      advance(number, work);
    }
    return std::numeric_limits<double>::infinity();
  }

private:
  using Item = std::tuple<double, size_t, size_t>; // least bytes, entry, work
  using Items = std::priority_queue<Item, std::vector<Item>, std::greater<>>;

  bool isOpen(size_t number, size_t work) const {
    const Entry &entry = search.entries[number];
    return work < entry.works.size() && !entry.works[work].isDone;
  }

  void push(size_t number) {
    const Entry &entry = search.entries[number];
    for (size_t work = 0; work < entry.works.size(); ++work)
      if (isOpen(number, work))
        push(number, work);
  }

  void push(size_t number, size_t work) {
    const Work &of = search.entries[number].works[work];
    items.push({of.memory, number, work});
    if (of.undivided)
      sampled.push({guess(of), number, work});
    else
      unsampled.push({of.memory, number, work});
  }

  /// What a shape may need: as much beyond its bound as others did, by the part of the layers that
  /// a rank has in a stage.
  double guess(const Work &work) const {
    auto known = beyond.find(getKind(work.shape));
    return work.memory + (known == beyond.end() ? 0 : known->second / countParts(work.shape));
  }
  static double countParts(const Shape &shape) {
    const Layout &layout = shape.layout;
    return double(shape.numStages() * layout.experts * layout.tensor * layout.context);
  }
  /// Of one stage with all layers samples say less.
  static std::pair<Recompute, bool> getKind(const Shape &shape) {
    return {shape.recompute, shape.numStages() > 1};
  }

  /// From plans that were simulated, but for the first ones.
  void learn(size_t first) {
    for (const Candidate &each : llvm::drop_begin(search.result.candidates, first)) {
      const double memory = each.step.maxMemory();
      double found = (memory - each.memoryBound) * countParts(each.plan.shape);
      auto [known, isNew] = beyond.try_emplace(getKind(each.plan.shape), found);
      known->second = std::min(known->second, found);
      least = std::min(least, memory);
    }
  }

  /// Takes a shape one step further.
  void advance(size_t number, size_t work) {
    Entry &entry = search.entries[number];
    if (!entry.hasUndivided) {
      search.raiseUndivided(entry);
      push(number);
    } else if (!entry.works[work].undivided) {
      search.raiseSampled(entry, work);
      push(number, work);
    } else if (!entry.times) {
      if (search.open(entry))
        push(number);
    } else if (!entry.works[work].isRefined()) {
      search.refine(entry, work);
      push(number, work);
    } else {
      const size_t before = search.result.candidates.size();
      search.search(entry, work);
      learn(before);
      if (isOpen(number, work)) // the time is over
        push(number, work);
    }
  }

  /// For half of the time the shape that may need least, of those that have samples, is carried
  /// out.
  bool carryOut(double start) {
    constexpr double part = 0.5;
    if (carriedOut >= part * (search.now() - start))
      return false;
    while (!sampled.empty()) {
      auto [guessed, number, work] = sampled.top();
      if (guessed >= least)
        return false;
      sampled.pop();
      if (!isOpen(number, work))
        continue;
      if (double now = guess(search.entries[number].works[work]); now != guessed) {
        sampled.push({now, number, work});
        continue;
      }
      const double before = search.now();
      advance(number, work);
      carriedOut += search.now() - before;
      return true;
    }
    return false;
  }

  /// Bounds of many shapes are the same until there are samples. Those that have none come first.
  bool sample() {
    while (!unsampled.empty()) {
      auto [memory, number, work] = unsampled.top();
      if (memory >= least)
        return false;
      unsampled.pop();
      const Entry &entry = search.entries[number];
      if (!isOpen(number, work) || entry.works[work].undivided)
        continue;
      if (double now = entry.works[work].memory; now > memory) {
        unsampled.push({now, number, work});
        continue;
      }
      advance(number, work);
      return true;
    }
    return false;
  }

  Search &search;
  /// All that is left, by bounds; that which has samples, by guesses; the rest, by bounds.
  Items items, sampled, unsampled;
  double carriedOut = 0; ///< seconds
  /// Bytes of the simulated plan that needs least.
  double least = std::numeric_limits<double>::infinity();
  /// Of simulated plans: the least bytes beyond a bound, times their parts.
  std::map<std::pair<Recompute, bool>, double> beyond;
};

/// Where nothing was found that fits: looks for the least memory.
void Search::searchMemory() {
  result.memoryBound = MemoryQueue(*this).run();
  if (const Candidate *smallest = result.getSmallest())
    result.memoryBound = std::min(result.memoryBound, smallest->step.maxMemory());
}
