// What a timeline says about a schedule: makespan, bubbles, exposed communication, memory.

#ifndef CLEAVE_LIB_SCHEDULE_SIMULATE_METRICS_H
#define CLEAVE_LIB_SCHEDULE_SIMULATE_METRICS_H

#include "lib/schedule/simulate/Simulator.h"

namespace cleave::simulate {

struct Metrics {
  double makespan = 0;
  /// 1 - busy time of all ranks / (ranks x makespan).
  double bubbleRate = 0;
  /// The Zero Bubble paper's (arXiv 2401.10241): of the rank with the largest span, from the start
  /// of its first action to the end of its last, the part of the span without work.
  double largestSpan = 0;
  double largestSpanBubbleRate = 0;
  /// Per rank, in the cost table's units.
  std::vector<double> busy, span, exposedCommunication, peakMemory;

  double maxPeakMemory() const;
};

Metrics measure(const schedule::Schedule &program, const Timeline &timeline);

} // namespace cleave::simulate

#endif // CLEAVE_LIB_SCHEDULE_SIMULATE_METRICS_H
