//===- Frontier.cpp - partitions that trade memory for time -------------------===//

#include "lib/backward/Frontier.h"

#include "lib/backward/RecomputeUnits.h"

#include <deque>
#include <limits>
#include <queue>
#include <random>

using namespace cleave::backward;
using llvm::BitVector;

/// Partitions that are tried at most, and the ops that are gone through for that in all: about half
/// a second. As many ops again, and the double of that, where values may be offloaded.
static constexpr unsigned kMaxTries = 50'000, kMaxOffloadTries = 8000;
static constexpr uint64_t kMaxWork = 16'000'000;
/// The steps of a walk, and the walks in a row that may find nothing.
static constexpr unsigned kWalkSteps = 300, kIdleWalks = 60;
/// How much worse the first step of a walk may be, as a part of the frontier's times: in turn.
static constexpr double kMostWorse[] = {0.02, 0.05, 0.1, 0.2};
/// What memory above the aim of a walk costs, as a multiple of its price on the frontier.
static constexpr double kPriceFactor = 4;
/// What time counts where the least memory is asked for: something, so that walks do not drift.
static constexpr double kTimeOfLeast = 0.01;

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
  Search(PartitionCosts &costs, unsigned parts)
      : costs(costs), maxTries(kMaxTries), maxWork(kMaxWork / parts) {}

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
  /// Pairs take no more than half of the tries, so that walks have the rest.
  bool hasWork(bool isOfPairs = false) const {
    return tries < (isOfPairs ? maxTries / 2 : maxTries) && work < maxWork / (isOfPairs ? 4 : 1);
  }

  /// Walks are for graphs so small that half of the work is left for them.
  bool hasWorkToWalk() const { return tries < maxTries && work < maxWork / 2; }

  PartitionCosts::Costs tryPartition(const BitVector &kept) {
    work += countOps();
    ++tries;
    const PartitionCosts::Costs measured = costs.measure(kept);
    if (frontier.insert(measured, kept))
      found.push_back(kept);
    return measured;
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
    flipPairs(std::move(near));
    walk();
  }

  /// What differs by one choice, as long as that finds something; then by two choices, those that
  /// are neighbours first: what is computed from each other lies close together.
  void flipPairs(std::vector<BitVector> near) {
    const unsigned choices = unsigned(costs.getChoices().size());
    llvm::DenseSet<BitVector> known;
    auto flip = [&](BitVector kept, unsigned one, unsigned other) {
      kept.flip(one);
      if (other != one)
        kept.flip(other);
      if (known.insert(kept).second)
        tryPartition(kept);
      else
        ++work;
    };
    for (unsigned distance = 0; distance < choices && hasWork(distance > 0);) {
      for (unsigned choice = 0; choice + distance < choices && hasWork(distance > 0); ++choice)
        for (size_t each = 0; each < near.size() && hasWork(distance > 0); ++each)
          flip(near[each], choice, choice + distance);
      if (found.empty()) {
        ++distance;
        near.clear();
        for (const Frontier::Point &point : frontier.getPoints())
          near.push_back(point.kept);
        continue;
      }
      distance = 0;
      near.assign(found.begin(), found.end());
      found.clear();
    }
  }

  /// Walks by single choices from what was found, to what is up to so much worse, less and less,
  /// than a point of the frontier: what differs by many choices from anything that is as good is
  /// reached by steps over what is not. Ends where many walks in a row find nothing.
  void walk() {
    const unsigned choices = unsigned(costs.getChoices().size());
    std::mt19937 random(1);
    unsigned turn = 0;
    for (unsigned idle = 0; idle < kIdleWalks && choices > 0 && hasWorkToWalk(); ++idle, ++turn) {
      const double mostWorse = kMostWorse[turn % std::size(kMostWorse)];
      llvm::ArrayRef<Frontier::Point> points = frontier.getPoints();
      const double bytes = double(points.back().costs.peakBytes - points.front().costs.peakBytes);
      const double time = double(points.front().costs.time - points.back().costs.time);
      // Half of the walks ask for less memory than any, whatever the time.
      const bool isLeast = turn / std::size(kMostWorse) % 2 == 0;
      const size_t aim = isLeast ? 0 : random() % points.size();
      const int64_t most = points[aim].costs.peakBytes - isLeast;
      // From the point itself, or from the next, which takes less time and more memory.
      const Frontier::Point start =
          points[std::min<size_t>(aim + (isLeast ? 0 : random() % 2), points.size() - 1)];
      // What is above costs several times as much as the frontier gains for it on average.
      const double price = kPriceFactor * time / std::max(bytes, 1.0);
      const double worst = mostWorse * (isLeast ? price * bytes : time);
      auto rate = [&](const PartitionCosts::Costs &at) {
        const int64_t above = std::max<int64_t>(at.peakBytes - most, 0);
        return price * double(above) + (isLeast ? kTimeOfLeast : 1) * double(at.time);
      };
      BitVector kept = start.kept;
      double rated = rate(start.costs);
      for (unsigned step = 0; step < kWalkSteps && hasWorkToWalk(); ++step) {
        const unsigned choice = random() % choices;
        kept.flip(choice);
        const double next = rate(tryPartition(kept));
        if (next - rated <= worst * (kWalkSteps - step) / kWalkSteps)
          rated = next;
        else
          kept.flip(choice);
      }
      if (!found.empty())
        idle = 0;
      found.clear();
    }
  }

  /// Offloads of what each partition so far saves, as long as there is work left: the first values,
  /// which are held longest, or the largest; then what lies near the best.
  void offload() {
    maxTries = kMaxOffloadTries;
    maxWork *= 2;
    tries = 0;
    work = 0;
    found.clear();
    offloadInOrders();
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

  /// What a partition can offload, in some order.
  struct Order {
    BitVector kept;
    llvm::SmallVector<unsigned> bits;

    BitVector offload(size_t count) const {
      BitVector result = kept;
      for (unsigned bit : llvm::ArrayRef<unsigned>(bits).take_front(count))
        result.set(bit);
      return result;
    }
  };
  /// How much of an order is offloaded: between two counts whose costs are known.
  struct Span {
    const Order *order;
    size_t low, high;
    PartitionCosts::Costs lowCosts, highCosts;
  };

  /// The more of an order is offloaded, the lower the peak and the longer the time: so what lies
  /// in a span has at best the peak of its high end and the time of its low end. The time that this
  /// is below what is known with such a peak; 0 if nothing in the span can be on the frontier.
  int64_t getGain(const Span &span) const {
    if (span.high - span.low < 2)
      return 0;
    const Frontier::Point *best = frontier.find(span.highCosts.peakBytes);
    return best ? std::max<int64_t>(best->costs.time - span.lowCosts.time, 0)
                : std::numeric_limits<int64_t>::max();
  }

  /// Halves the span that may gain most, again and again. Takes half of the work.
  void offloadInOrders() {
    std::deque<Order> orders;
    auto isBehind = [](const auto &a, const auto &b) { return a.first < b.first; };
    std::priority_queue<std::pair<int64_t, Span>, std::vector<std::pair<int64_t, Span>>,
                        decltype(isBehind)>
        spans(isBehind);
    auto add = [&](const Span &span) {
      if (int64_t gain = getGain(span); gain > 0)
        spans.push({gain, span});
    };
    std::vector<Frontier::Point> plain = frontier.getPoints().vec();
    const size_t enough = std::min<uint64_t>(maxTries, maxWork / 2 / countOps());
    const size_t stride = plain.size() * 8 / std::max<size_t>(enough, 1) + 1;
    for (size_t each = 0; each < plain.size(); each += stride) {
      const Frontier::Point &point = plain[each];
      costs.measure(point.kept);
      llvm::SmallVector<unsigned> first = costs.listOffloadable(), largest = first;
      llvm::stable_sort(largest, [&](unsigned a, unsigned b) { return bytesOf(a) > bytesOf(b); });
      for (bool isLate : {false, true}) {
        Order order{point.kept, first};
        if (isLate)
          order.kept.set(costs.getLateBit());
        const PartitionCosts::Costs all = tryPartition(order.offload(first.size()));
        for (const auto &bits : {first, largest}) {
          orders.push_back({order.kept, bits});
          add({&orders.back(), 0, bits.size(), point.costs, all});
        }
      }
    }
    while (!spans.empty() && tries < enough) {
      auto [gain, span] = spans.top();
      spans.pop();
      if (getGain(span) < gain) { // something better was found since
        add(span);
        continue;
      }
      const size_t middle = span.low + (span.high - span.low) / 2;
      const PartitionCosts::Costs between = tryPartition(span.order->offload(middle));
      add({span.order, span.low, middle, span.lowCosts, between});
      add({span.order, middle, span.high, between, span.highCosts});
    }
  }

  int64_t bytesOf(unsigned bit) const {
    return costs.getBytes(costs.getOffloadable()[bit - costs.getChoices().size()]);
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
  unsigned maxTries;
  uint64_t maxWork;
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
