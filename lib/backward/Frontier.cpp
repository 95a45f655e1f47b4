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
    if (mayTryAll(costs.countBits())) {
      tryAll(costs.countBits());
      return std::move(frontier);
    }
    unsigned choices = unsigned(costs.getChoices().size());
    if (mayTryAll(choices)) {
      tryAll(choices);
    } else {
      for (const BitVector &seed : seeds)
        tryPartition(seed);
      units = findRecomputeUnits(costs);
      followPrices();
      sortByLikeness();
      improve();
    }
    if (costs.countBits() > choices)
      offload();
    return std::move(frontier);
  }

private:
  bool mayTryAll(unsigned bits) const {
    return bits < 24 && (uint64_t(countOps()) << bits) <= maxWork;
  }
  unsigned countOps() const { return std::max(costs.countOps(), 1u); }
  bool hasWork() const { return tries < kMaxTries && work < maxWork; }

  void tryPartition(const BitVector &kept) {
    work += countOps();
    ++tries;
    if (frontier.insert(costs.measure(kept), kept))
      found.push_back(kept);
  }

  void tryAll(unsigned bits) {
    for (uint64_t number = 0; number < uint64_t(1) << bits; ++number) {
      BitVector kept(costs.countBits());
      for (unsigned bit = 0; bit < bits; ++bit)
        if (number >> bit & 1)
          kept.set(bit);
      frontier.insert(costs.measure(kept), kept);
    }
  }

  /// Everything is saved; then one unit after the other is recomputed. Early ones come first:
  /// they would be held longest.
  void followPrices() {
    BitVector kept(costs.countBits());
    kept.set(0, unsigned(costs.getChoices().size()));
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

  /// Offloads of what each partition so far saves, as long as there is work left: the first values,
  /// which are held longest, or the largest, one after the other; then what lies near the best.
  void offload() {
    tries = 0;
    work = 0;
    found.clear();
    std::vector<BitVector> plain;
    for (const Frontier::Point &point : frontier.getPoints())
      plain.push_back(point.kept);
    size_t left = plain.size();
    for (const BitVector &kept : plain) {
      // Half of the work is for what lies near.
      uint64_t share = std::min<uint64_t>(kMaxTries - std::min(tries, kMaxTries),
                                          (maxWork / 2 - std::min(work, maxWork / 2)) / countOps());
      share /= left--;
      costs.measure(kept);
      llvm::SmallVector<unsigned> bits = costs.listOffloadable();
      BitVector late = kept;
      late.set(costs.getLateBit());
      for (const BitVector &start : {kept, late})
        offloadInOrder(start, bits, share / 4);
      llvm::stable_sort(bits, [&](unsigned a, unsigned b) { return bytesOf(a) > bytesOf(b); });
      for (const BitVector &start : {kept, late})
        offloadInOrder(start, bits, share / 4);
    }
    tries = 0;
    while (!found.empty() && hasWork()) {
      BitVector kept = std::move(found.front());
      found.pop_front();
      if (!isOnFrontier(kept))
        continue;
      costs.measure(kept);
      llvm::SmallVector<unsigned> bits = costs.listOffloadable();
      bits.push_back(costs.getLateBit());
      for (unsigned bit : bits) {
        if (!hasWork())
          break;
        BitVector next = kept;
        tryPartition(next.flip(bit));
      }
    }
  }

  int64_t bytesOf(unsigned bit) const {
    return costs.getBytes(costs.getOffloadable()[bit - costs.getChoices().size()]);
  }

  /// The first one, the first two, ...; more at a time where that would take too many tries.
  void offloadInOrder(BitVector kept, llvm::ArrayRef<unsigned> bits, uint64_t maxTries) {
    size_t stride = bits.size() / std::max<uint64_t>(maxTries, 1) + 1;
    for (size_t next = 0; next < bits.size();) {
      for (size_t end = std::min(next + stride, bits.size()); next < end; ++next)
        kept.set(bits[next]);
      tryPartition(kept);
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
