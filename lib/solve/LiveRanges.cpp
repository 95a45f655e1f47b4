//===- LiveRanges.cpp ------------------------------------------------------===//

#include "lib/solve/LiveRanges.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::solve;

LiveRanges::LiveRanges(const Problem &problem) : ranges(problem.getNodes().size()) {
  // By time; at the same time, ends come before starts.
  struct Event {
    int64_t time;
    bool isStart;
    unsigned node;
    auto operator<=>(const Event &) const = default;
  };
  std::vector<Event> events;
  for (auto [number, node] : llvm::enumerate(problem.getNodes()))
    if (node.isLive() &&
        llvm::any_of(problem.getUsages(number), [](int64_t usage) { return usage > 0; })) {
      events.push_back({node.start, true, static_cast<unsigned>(number)});
      events.push_back({node.end, false, static_cast<unsigned>(number)});
    }
  llvm::sort(events);
  int64_t latestStart = 0;
  bool hasStarted = false;
  for (const Event &event : events) {
    if (event.isStart) {
      ranges[event.node].first = times.size();
      latestStart = event.time;
      hasStarted = true;
      continue;
    }
    if (hasStarted)
      times.push_back(latestStart);
    hasStarted = false;
    ranges[event.node].last = times.size();
  }
}
