//===- Packing.cpp - intervals of time get ranges of memory -------------------===//

#include "lib/memory/plan/Packing.h"

#include "lib/solve/Packing.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>

using namespace cleave::exec;

namespace {

struct ByteRange {
  int64_t begin, end;
};

/// Disjoint ranges of bytes in ascending order, none of which touch.
class Ranges {
public:
  void insert(ByteRange range) {
    auto first = llvm::partition_point(ranges, [&](ByteRange r) { return r.end < range.begin; });
    auto last = first;
    for (; last != ranges.end() && last->begin <= range.end; ++last) {
      range.begin = std::min(range.begin, last->begin);
      range.end = std::max(range.end, last->end);
    }
    if (first == last) {
      ranges.insert(first, range);
      return;
    }
    *first = range;
    ranges.erase(first + 1, last);
  }
  llvm::ArrayRef<ByteRange> all() const { return ranges; }

private:
  std::vector<ByteRange> ranges;
};

/// Which bytes are taken at some time of an interval: a segment tree over time. What is packed
/// well leaves few gaps, so that a node has few ranges, however many buffers lie there.
class TakenBytes {
public:
  explicit TakenBytes(unsigned times) : times(times), nodes(4 * size_t(times)) {}

  void insert(const Interval &interval, ByteRange range) { insert(1, 0, times, interval, range); }
  /// Appends ranges, which may overlap, that together are what is taken in `interval`.
  void collect(const Interval &interval, std::vector<ByteRange> &found) const {
    collect(1, 0, times, interval, found);
  }

private:
  struct Node {
    Ranges throughout; ///< taken at all times of the node, and not of its parent
    Ranges sometime;   ///< taken at one of its times at least
  };

  static bool covers(const Interval &interval, unsigned from, unsigned to) {
    return interval.begin <= from && to <= interval.end + 1;
  }
  static bool misses(const Interval &interval, unsigned from, unsigned to) {
    return interval.end < from || to <= interval.begin;
  }

  void insert(size_t node, unsigned from, unsigned to, const Interval &interval, ByteRange range) {
    if (misses(interval, from, to))
      return;
    nodes[node].sometime.insert(range);
    if (covers(interval, from, to)) {
      nodes[node].throughout.insert(range);
      return;
    }
    unsigned middle = (from + to) / 2;
    insert(2 * node, from, middle, interval, range);
    insert(2 * node + 1, middle, to, interval, range);
  }

  void collect(size_t node, unsigned from, unsigned to, const Interval &interval,
               std::vector<ByteRange> &found) const {
    if (misses(interval, from, to))
      return;
    bool isWhole = covers(interval, from, to);
    llvm::append_range(found, (isWhole ? nodes[node].sometime : nodes[node].throughout).all());
    if (isWhole)
      return;
    unsigned middle = (from + to) / 2;
    collect(2 * node, from, middle, interval, found);
    collect(2 * node + 1, middle, to, interval, found);
  }

  unsigned times;
  std::vector<Node> nodes;
};

int64_t findLowerBound(llvm::ArrayRef<Interval> intervals) {
  std::vector<std::pair<unsigned, int64_t>> changes; // what ends at t is still there at t
  for (const Interval &interval : intervals) {
    changes.emplace_back(interval.begin, interval.bytes);
    changes.emplace_back(interval.end + 1, -interval.bytes);
  }
  llvm::sort(changes);
  int64_t live = 0, maximum = 0;
  for (auto [time, change] : changes) {
    live += change;
    maximum = std::max(maximum, live);
  }
  return maximum;
}

/// Places intervals in `order`, each in the smallest gap that it fits in; of equal ones, the
/// lowest.
Packing packInOrder(llvm::ArrayRef<Interval> intervals, llvm::ArrayRef<unsigned> order) {
  Packing packing;
  packing.offsets.resize(intervals.size());
  unsigned times = 0;
  for (const Interval &interval : intervals)
    times = std::max(times, interval.end + 1);
  TakenBytes bytes(times);
  std::vector<ByteRange> taken;
  for (unsigned each : order) {
    const Interval &interval = intervals[each];
    taken.clear();
    bytes.collect(interval, taken);
    llvm::sort(taken, [](ByteRange a, ByteRange b) { return a.begin < b.begin; });
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
    int64_t end = packing.offsets[each] + interval.bytes;
    packing.bytes = std::max(packing.bytes, end);
    bytes.insert(interval, {packing.offsets[each], end});
  }
  return packing;
}

/// What a search is given: its time grows with the square of the intervals, that of best fit hardly
/// more than their number.
constexpr size_t kMaxSearched = 256;
/// How often it is asked whether to go on, which it does every 256 steps at least.
constexpr unsigned kMaxRounds = 6;

/// Where best fit leaves gaps, looks for a packing without any; what it finds must be better. The
/// search is cut by its steps, not by time: the same program gets the same offsets everywhere.
void searchWithoutGaps(llvm::ArrayRef<Interval> intervals, int64_t alignment, Packing &best) {
  if (best.bytes == best.lowerBound || intervals.size() > kMaxSearched)
    return;
  std::vector<cleave::solve::Buffer> buffers;
  for (const Interval &interval : intervals)
    buffers.push_back({interval.begin, int64_t(interval.end) + 1, interval.bytes / alignment});
  unsigned rounds = 0;
  cleave::solve::Packing found = cleave::solve::pack(
      buffers, best.lowerBound / alignment, /*seed=*/1, [&] { return ++rounds > kMaxRounds; });
  if (found.height * alignment >= best.bytes)
    return;
  best.bytes = found.height * alignment;
  for (auto [offset, units] : llvm::zip_equal(best.offsets, found.offsets))
    offset = units * alignment;
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
  searchWithoutGaps(intervals, alignment, best);
  return best;
}
