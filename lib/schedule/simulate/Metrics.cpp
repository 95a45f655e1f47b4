// Metrics of a timeline.
#include "lib/schedule/simulate/Metrics.h"

#include <algorithm>
#include <limits>

using namespace cleave::simulate;
using namespace cleave::schedule;

static bool onComputeStream(ActionKind kind) {
  return isCompute(kind) || kind == ActionKind::OptimizerStep || kind == ActionKind::Compose ||
         kind == ActionKind::Custom || kind == ActionKind::Collective;
}

double Metrics::maxPeakMemory() const {
  return peakMemory.empty() ? 0 : *std::max_element(peakMemory.begin(), peakMemory.end());
}

Metrics cleave::simulate::measure(const Schedule &program, const Timeline &timeline) {
  Metrics metrics;
  unsigned ranks = program.numRanks();
  metrics.busy.resize(ranks);
  metrics.span.resize(ranks);
  metrics.exposedCommunication = timeline.exposedCommunication;
  metrics.peakMemory = timeline.peakMemory;
  double totalBusy = 0, busyOfLargest = 0;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    double first = std::numeric_limits<double>::infinity(), last = 0;
    for (size_t position = 0; position < program.ranks[rank].size(); ++position) {
      if (!onComputeStream(program.ranks[rank][position].kind))
        continue;
      const ActionTime &time = timeline.ranks[rank][position];
      metrics.busy[rank] += time.end - time.start;
      first = std::min(first, time.start);
      last = std::max(last, time.end);
    }
    metrics.span[rank] = last > first ? last - first : 0;
    metrics.makespan = std::max(metrics.makespan, timeline.rankEnd[rank]);
    totalBusy += metrics.busy[rank];
    if (metrics.span[rank] > metrics.largestSpan) {
      metrics.largestSpan = metrics.span[rank];
      busyOfLargest = metrics.busy[rank];
    }
  }
  if (metrics.makespan > 0)
    metrics.bubbleRate = 1 - totalBusy / (ranks * metrics.makespan);
  if (metrics.largestSpan > 0)
    metrics.largestSpanBubbleRate = 1 - busyOfLargest / metrics.largestSpan;
  return metrics;
}
