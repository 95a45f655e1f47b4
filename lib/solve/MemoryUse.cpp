//===- MemoryUse.cpp - sums of usages, by segment --------------------------===//

#include "lib/solve/MemoryUse.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace cleave::solve;

void MemoryUse::addNode(unsigned choices, llvm::ArrayRef<Part> parts) {
  struct Event {
    unsigned point;
    const Part *part;
    bool isStart;
  };
  std::vector<Event> events;
  for (const Part &part : parts)
    if (!part.range.isEmpty() &&
        llvm::any_of(part.usages, [](int64_t usage) { return usage > 0; })) {
      events.push_back({part.range.first, &part, true});
      events.push_back({part.range.last, &part, false});
    }
  llvm::stable_sort(events, [](const Event &a, const Event &b) { return a.point < b.point; });
  // Wide sums, from which what ends is taken off again.
  std::vector<Cost> present(choices);
  std::vector<int64_t> clipped(choices);
  auto isConstant = [&](const Segment &segment) {
    const int64_t *begin = getUsages(segment);
    return std::all_of(begin, begin + choices, [&](int64_t usage) { return usage == *begin; });
  };
  size_t firstOwn = segments.size();
  for (size_t next = 0; next < events.size();) {
    unsigned point = events[next].point;
    for (; next < events.size() && events[next].point == point; ++next)
      for (unsigned choice = 0; choice < choices; ++choice)
        present[choice] += events[next].isStart ? Cost(events[next].part->usages[choice])
                                                : -Cost(events[next].part->usages[choice]);
    if (next == events.size())
      break;
    bool isUsed = false;
    for (unsigned choice = 0; choice < choices; ++choice) {
      clipped[choice] = static_cast<int64_t>(std::min<Cost>(present[choice], INT64_MAX));
      isUsed |= clipped[choice] > 0;
    }
    if (!isUsed)
      continue;
    PointRange range{point, events[next].point};
    if (segments.size() > firstOwn && segments.back().range.last == point &&
        std::equal(clipped.begin(), clipped.end(), getUsages(segments.back()))) {
      segments.back().range.last = range.last;
      continue;
    }
    segments.push_back({range, usages.size()});
    usages.insert(usages.end(), clipped.begin(), clipped.end());
  }
  auto middle = std::stable_partition(segments.begin() + firstOwn, segments.end(),
                                      [&](const Segment &segment) { return !isConstant(segment); });
  varyingEnds.push_back(middle - segments.begin());
  ends.push_back(segments.size());
}

void MemoryUse::addPriced(llvm::ArrayRef<Segment> segments, llvm::ArrayRef<double> sums,
                          llvm::MutableArrayRef<double> costs) const {
  for (const Segment &segment : segments) {
    double price = sums[segment.range.last] - sums[segment.range.first];
    if (price == 0)
      continue;
    const int64_t *own = getUsages(segment);
    for (size_t choice = 0; choice < costs.size(); ++choice)
      costs[choice] += price * static_cast<double>(own[choice]);
  }
}
