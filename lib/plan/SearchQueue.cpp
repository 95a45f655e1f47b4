// What a search looks at next: the least bound first.
#include "lib/plan/SearchEntry.h"

#include <queue>
#include <set>

using namespace cleave::plan;

/// A layout that is not partitioned yet, or a shape of one.
struct Search::Item {
  double bound;
  size_t entry;
  std::optional<size_t> work;

  bool operator>(const Item &other) const {
    return std::tie(bound, entry, work) > std::tie(other.bound, other.entry, other.work);
  }
};

/// What is left of some layouts.
class Search::Queue {
public:
  Queue(Search &search, llvm::function_ref<bool(const Layout &)> isIn) : search(search) {
    for (size_t number = 0; number < search.entries.size(); ++number)
      if (const LayoutReport &report = search.entries[number].report;
          report.kind == LayoutReport::Open && isIn(report.layout))
        push(number);
  }

  /// Until nothing is left with a bound below that part of the best, or the search has taken `end`
  /// seconds.
  void run(double end, double part) {
    while (!items.empty() && !search.isOver() && search.now() < end) {
      Item item = items.top();
      if (item.bound > part * search.best)
        return;
      items.pop();
      Entry &entry = search.entries[item.entry];
      if (item.work ? entry.works[*item.work].isDone : !entry.findLeast())
        continue;
      if (double bound = item.work ? entry.works[*item.work].bound : 0; bound > item.bound) {
        if (!std::isinf(bound)) // more is known of it by now
          items.push({bound, item.entry, item.work});
        continue;
      }
      item.work ? lookAtShape(item) : lookAtLayout(item);
      dive();
    }
  }

private:
  using Items = std::priority_queue<Item, std::vector<Item>, std::greater<>>;

  bool isSlow(const Item &item) const {
    return !search.options.isExhaustive && item.bound >= search.best;
  }

  void push(size_t number) {
    Entry &entry = search.entries[number];
    if (!entry.times) {
      if (const Work *least = entry.findLeast())
        items.push({least->bound, number, std::nullopt});
      return;
    }
    for (size_t work = 0; work < entry.works.size(); ++work)
      if (!entry.works[work].isDone && !std::isinf(entry.works[work].bound))
        items.push({entry.works[work].bound, number, work});
  }

  void lookAtShape(const Item &item) {
    Entry &entry = search.entries[item.entry];
    size_t number = *item.work;
    Work &work = entry.works[number];
    if (isSlow(item)) {
      search.close(entry, number);
    } else if (work.isRefined()) {
      search.search(entry, number);
    } else {
      raise(item.entry, number);
      if (!std::isinf(work.bound))
        items.push({work.bound, item.entry, number});
    }
  }

  void lookAtLayout(const Item &item) {
    Entry &entry = search.entries[item.entry];
    bool isExhaustive = search.options.isExhaustive;
    if (isSlow(item)) {
      for (size_t work = 0; work < entry.works.size(); ++work)
        search.close(entry, work);
      return;
    }
    if (!entry.hasUnshared && !isExhaustive)
      search.raiseUnshared(entry);
    else if (!entry.hasUndivided && !isExhaustive)
      search.raiseUndivided(entry);
    else if (const Work *least = entry.findLeast(); !least->undivided && !isExhaustive)
      raise(item.entry, size_t(least - entry.works.data()));
    else if (!search.open(entry))
      return;
    push(item.entry);
  }

  void raise(size_t entry, size_t work) {
    Entry &of = search.entries[entry];
    of.works[work].undivided ? search.refine(of, work) : search.raiseSampled(of, work);
    if (double bound = of.works[work].bound; of.works[work].undivided && bound < search.best)
      sampled.push({bound, entry, work});
  }

  /// Bounds of many layouts rise together. Samples of stages say nearly what a plan takes, so that
  /// for a part of the time the shape of which they say the least is looked at before its turn.
  void dive() {
    constexpr double divedPart = 1.0 / 12;
    while (!search.options.isExhaustive && !sampled.empty() && dived < search.now() * divedPart) {
      Item item = sampled.top();
      sampled.pop();
      Entry &entry = search.entries[item.entry];
      if (*item.work >= entry.works.size()) // was refused
        continue;
      const Work &work = entry.works[*item.work];
      if (work.isDone || work.bound > item.bound || work.bound >= search.best)
        continue; // is done, or in the queue with what is known by now
      double before = search.now();
      work.isRefined() ? search.search(entry, *item.work) : raise(item.entry, *item.work);
      dived += search.now() - before;
    }
  }

  Search &search;
  Items items, sampled;
  double dived = 0;
};

static constexpr double forEver = std::numeric_limits<double>::infinity();

/// Looks at what is left.
void Search::searchRest() {
  Queue(*this, [](const Layout &) { return true; }).run(forEver, forEver);
}

/// Looks for a better plan among layouts that divide layers as the best one does, then among those
/// that differ by one step, and so on from there. With a good plan most others are left out early.
void Search::searchNear() {
  // What is a little better counts for little: it has its turn later.
  constexpr double part = 1.0 / 3, better = 0.98;
  double end =
      options.timer ? options.timer->getSeconds() + part * options.timer->getLimit() : forEver;
  using Division = std::array<int64_t, 4>;
  auto divide = [](const Layout &layout) {
    return Division{layout.tensor, layout.context, layout.experts, layout.sequence};
  };
  auto isNear = [](const Division &a, const Division &b) {
    unsigned steps = 0;
    for (size_t axis = 0; axis < 3; ++axis) {
      auto [low, high] = std::minmax(a[axis], b[axis]);
      if (high > low)
        steps += high <= 3 * low ? 1 : 2;
    }
    return steps <= 1;
  };
  std::set<Division> looked;
  auto lookAt = [&](const Division &division) {
    looked.insert(division);
    // What is gathered in each microbatch is known late.
    Queue(*this, [&](const Layout &layout) {
      return divide(layout) == division && layout.sharding != Sharding::Fsdp;
    }).run(end, better);
  };
  while (!std::isinf(best) && !isOver()) {
    Division center = divide(bestPlan.shape.layout);
    std::optional<Division> next;
    if (!looked.count(center))
      next = center;
    for (const Entry &entry : entries)
      if (Division other = divide(entry.report.layout);
          !next && isNear(center, other) && !looked.count(other))
        next = other;
    if (!next || (options.timer && options.timer->getSeconds() >= end))
      return;
    lookAt(*next);
  }
}
