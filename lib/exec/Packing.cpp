//===- Packing.cpp - intervals of time get ranges of memory -------------------===//

#include "lib/exec/Packing.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace cleave::exec;

namespace {

/// Finds the placed intervals that overlap another in time: a segment tree over all intervals in
/// the order of their beginnings, each node with the latest end of those placed below it.
class PlacedIntervals {
public:
  explicit PlacedIntervals(llvm::ArrayRef<Interval> intervals) : intervals(intervals) {
    byBegin.resize(intervals.size());
    for (unsigned i = 0; i < intervals.size(); ++i)
      byBegin[i] = i;
    llvm::sort(byBegin, [&](unsigned a, unsigned b) {
      return std::tie(intervals[a].begin, a) < std::tie(intervals[b].begin, b);
    });
    places.resize(intervals.size());
    for (unsigned i = 0; i < byBegin.size(); ++i)
      places[byBegin[i]] = i;
    latestEnd.assign(4 * intervals.size() + 4, kNothing);
  }

  void insert(unsigned interval) {
    insert(1, 0, byBegin.size(), places[interval], intervals[interval].end);
  }
  /// Appends the numbers of placed intervals that share a point of time with `interval`.
  void collect(const Interval &interval, std::vector<unsigned> &found) const {
    if (!byBegin.empty())
      collect(1, 0, byBegin.size(), interval, found);
  }

private:
  static constexpr int64_t kNothing = -1;

  void insert(size_t node, unsigned from, unsigned to, unsigned place, int64_t end) {
    latestEnd[node] = std::max(latestEnd[node], end);
    if (to - from == 1)
      return;
    unsigned middle = (from + to) / 2;
    if (place < middle)
      insert(2 * node, from, middle, place, end);
    else
      insert(2 * node + 1, middle, to, place, end);
  }

  void collect(size_t node, unsigned from, unsigned to, const Interval &interval,
               std::vector<unsigned> &found) const {
    if (latestEnd[node] < int64_t(interval.begin) || intervals[byBegin[from]].begin > interval.end)
      return;
    if (to - from == 1) {
      found.push_back(byBegin[from]);
      return;
    }
    unsigned middle = (from + to) / 2;
    collect(2 * node, from, middle, interval, found);
    collect(2 * node + 1, middle, to, interval, found);
  }

  llvm::ArrayRef<Interval> intervals;
  /// Interval by place, and place by interval.
  std::vector<unsigned> byBegin, places;
  std::vector<int64_t> latestEnd;
};

int64_t findLowerBound(llvm::ArrayRef<Interval> intervals) {
  std::vector<std::pair<unsigned, int64_t>> changes; // what ends at t is still there at t
  for (const Interval &interval : intervals) {
    changes.emplace_back(interval.begin, interval.bytes);
    changes.emplace_back(interval.end + 1, -interval.bytes);
  }
  llvm::sort(changes);
  int64_t live = 0, most = 0;
  for (auto [time, change] : changes) {
    live += change;
    most = std::max(most, live);
  }
  return most;
}

/// Places intervals in `order`, each in the smallest gap that it fits in; of equal ones, the
/// lowest.
Packing packInOrder(llvm::ArrayRef<Interval> intervals, llvm::ArrayRef<unsigned> order) {
  Packing packing;
  packing.offsets.resize(intervals.size());
  PlacedIntervals placed(intervals);
  std::vector<unsigned> neighbors;
  std::vector<std::pair<int64_t, int64_t>> taken; // ranges of bytes
  for (unsigned each : order) {
    const Interval &interval = intervals[each];
    neighbors.clear();
    taken.clear();
    placed.collect(interval, neighbors);
    for (unsigned neighbor : neighbors)
      taken.emplace_back(packing.offsets[neighbor],
                         packing.offsets[neighbor] + intervals[neighbor].bytes);
    llvm::sort(taken);
    int64_t top = 0, best = -1, bestGap = std::numeric_limits<int64_t>::max();
    for (auto [begin, end] : taken) {
      int64_t gap = begin - top;
      if (gap >= interval.bytes && gap < bestGap) {
        best = top;
        bestGap = gap;
        if (gap == interval.bytes)
          break;
      }
      top = std::max(top, end);
    }
    packing.offsets[each] = best < 0 ? top : best;
    packing.bytes = std::max(packing.bytes, packing.offsets[each] + interval.bytes);
    placed.insert(each);
  }
  return packing;
}

} // namespace

Packing cleave::exec::packIntervals(llvm::ArrayRef<Interval> given, int64_t alignment) {
  std::vector<Interval> intervals(given);
  for (Interval &interval : intervals)
    interval.bytes = llvm::alignTo(interval.bytes, alignment);

  // Which order is best depends on the program: activations that wait for the backward nest like
  // brackets and are best laid down before what comes and goes; elsewhere the largest come first.
  using Key = std::pair<double, double>;
  auto key = [](unsigned order, const Interval &interval) -> Key {
    double bytes = double(interval.bytes), duration = double(interval.end - interval.begin + 1);
    return order == 0   ? Key(bytes, duration)
           : order == 1 ? Key(bytes * duration, duration)
                        : Key(duration, bytes);
  };
  Packing best;
  best.lowerBound = findLowerBound(intervals);
  for (unsigned each = 0; each < 3; ++each) {
    std::vector<std::pair<Key, unsigned>> keys;
    for (unsigned i = 0; i < intervals.size(); ++i)
      keys.emplace_back(key(each, intervals[i]), i);
    llvm::sort(keys, [](const auto &a, const auto &b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    std::vector<unsigned> order;
    for (const auto &[unused, index] : keys)
      order.push_back(index);
    Packing packing = packInOrder(intervals, order);
    if (best.offsets.size() != intervals.size() || packing.bytes < best.bytes) {
      packing.lowerBound = best.lowerBound;
      best = std::move(packing);
    }
    // Another order is worth its time where there is something to gain.
    if (best.bytes - best.lowerBound <= best.lowerBound / 200)
      break;
  }
  return best;
}
