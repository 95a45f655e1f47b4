//===- Frontier.cpp - partitions that trade memory for time -------------------===//

#include "lib/backward/Frontier.h"

#include "lib/backward/RecomputeUnits.h"

#include <deque>
#include <set>

using namespace cleave::backward;
using llvm::BitVector;

/// Partitions that are tried at most, and the ops that are gone through for that in all: about half
/// a second.
static constexpr unsigned kMaxTries = 4000;
static constexpr uint64_t kMaxWork = 16'000'000;

//===----------------------------------------------------------------------===//
// Frontier
//===----------------------------------------------------------------------===//

const Frontier::Point *Frontier::find(int64_t peakBytes) const {
  auto above = llvm::partition_point(
      points, [&](const Point &point) { return point.costs.peakBytes <= peakBytes; });
  return above == points.begin() ? nullptr : &*std::prev(above);
}

bool Frontier::insert(PartitionCosts::Costs costs, const BitVector &kept) {
  const Point *best = find(costs.peakBytes);
  if (best && best->costs.time <= costs.time)
    return false;
  // Those that need no less memory and take no less time go.
  auto first = llvm::partition_point(
      points, [&](const Point &point) { return point.costs.peakBytes < costs.peakBytes; });
  auto last = first;
  while (last != points.end() && last->costs.time >= costs.time)
    ++last;
  first = points.erase(first, last);
  points.insert(first, Point{costs, kept});
  return true;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

namespace {
class Search {
public:
  Search(PartitionCosts &costs, unsigned parts) : costs(costs), maxWork(kMaxWork / parts) {}

  Frontier run(llvm::ArrayRef<BitVector> seeds) {
    unsigned choices = unsigned(costs.getChoices().size());
    if (choices < 24 && (uint64_t(countOps()) << choices) <= maxWork) {
      tryAll(choices);
      return std::move(frontier);
    }
    for (const BitVector &seed : seeds)
      tryPartition(seed);
    units = findRecomputeUnits(costs);
    followPrices();
    sortByLikeness();
    improve();
    return std::move(frontier);
  }

private:
  unsigned countOps() const { return std::max(costs.countOps(), 1u); }
  bool hasWork() const { return tries < kMaxTries && work < maxWork; }

  void tryPartition(const BitVector &kept) {
    work += countOps();
    ++tries;
    if (frontier.insert(costs.measure(kept), kept))
      found.push_back(kept);
  }

  void tryAll(unsigned choices) {
    for (uint64_t number = 0; number < uint64_t(1) << choices; ++number) {
      BitVector kept(choices);
      for (unsigned choice = 0; choice < choices; ++choice)
        if (number >> choice & 1)
          kept.set(choice);
      frontier.insert(costs.measure(kept), kept);
    }
  }

  /// Everything is saved; then one unit after the other is recomputed. Early ones come first:
  /// they would be held longest.
  void followPrices() {
    BitVector kept(unsigned(costs.getChoices().size()), true);
    tryPartition(kept);
    for (const RecomputeUnit &unit : units) {
      for (unsigned choice : unit.choices)
        kept.reset(choice);
      tryPartition(kept);
    }
  }

  void sortByLikeness() {
    for (auto [number, unit] : llvm::enumerate(units)) {
      if (unit.likeness >= classes.size())
        classes.resize(unit.likeness + 1);
      classes[unit.likeness].push_back(unsigned(number));
    }
  }

  bool isAgain(const RecomputeUnit &unit, const BitVector &kept) const {
    return llvm::none_of(unit.choices, [&](unsigned choice) { return kept.test(choice); });
  }

  /// Tries what differs by a unit from what was found, then what differs by a choice, as long as
  /// there is work left. Of like units, the first that is saved is recomputed, or the last that
  /// is recomputed is saved.
  void improve() {
    std::vector<BitVector> near;
    while (!found.empty() && hasWork()) {
      BitVector kept = std::move(found.front());
      found.pop_front();
      if (!isOnFrontier(kept))
        continue;
      for (const std::vector<unsigned> &like : classes)
        moveUnits(kept, like);
      near.push_back(std::move(kept));
    }
    for (bool isNew = true; isNew && hasWork();) {
      isNew = false;
      for (unsigned choice = 0; choice < costs.getChoices().size() && hasWork(); ++choice)
        for (size_t each = 0; each < near.size() && hasWork(); ++each) {
          BitVector kept = near[each];
          kept.flip(choice);
          tryPartition(kept);
        }
      isNew = !found.empty();
      near.assign(found.begin(), found.end());
      found.clear();
    }
  }

  bool isOnFrontier(const BitVector &kept) const {
    return llvm::any_of(frontier.getPoints(),
                        [&](const Frontier::Point &point) { return point.kept == kept; });
  }

  void moveUnits(const BitVector &kept, llvm::ArrayRef<unsigned> like) {
    auto toggle = [&](unsigned unit, bool isKept) {
      if (!hasWork())
        return;
      BitVector next = kept;
      for (unsigned choice : units[unit].choices)
        isKept ? next.set(choice) : next.reset(choice);
      tryPartition(next);
    };
    auto first = llvm::find_if(like, [&](unsigned unit) { return !isAgain(units[unit], kept); });
    if (first != like.end())
      toggle(*first, /*isKept=*/false);
    auto last = llvm::find_if(llvm::reverse(like),
                              [&](unsigned unit) { return isAgain(units[unit], kept); });
    if (last != like.rend())
      toggle(*last, /*isKept=*/true);
  }

  PartitionCosts &costs;
  const uint64_t maxWork;
  Frontier frontier;
  std::vector<RecomputeUnit> units;
  std::vector<std::vector<unsigned>> classes;
  std::deque<BitVector> found;
  unsigned tries = 0;
  uint64_t work = 0;
};
} // namespace

Frontier cleave::backward::findFrontier(PartitionCosts &costs, llvm::ArrayRef<BitVector> seeds,
                                        unsigned parts) {
  return Search(costs, parts).run(seeds);
}
