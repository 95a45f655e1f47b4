// The lower bounds of LowerBound.h.
#include "lib/schedule/search/LowerBound.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace cleave::schedule::search;

namespace {
class Bounds {
public:
  explicit Bounds(const Pipeline &pipeline) : pipeline(pipeline), stages(pipeline.stages()) {
    // Prefix sums along the way of one microbatch: start of each stage's pass if nothing waits.
    double time = 0;
    for (unsigned stage = 0; stage < stages; ++stage) {
      forwardStart.push_back(time);
      time += pipeline.cost[ForwardPass][stage] + pipeline.sendForward[stage];
    }
    inputStart.resize(stages);
    for (unsigned stage = stages; stage-- > 0;) {
      inputStart[stage] = time;
      time += pipeline.cost[InputPass][stage] + pipeline.sendBackward[stage];
    }
  }

  LowerBound run() const {
    LowerBound bound;
    for (unsigned rank = 0; rank < pipeline.ranks; ++rank) {
      double start = forwardStart[firstStage(rank)];
      double head = headIdle(rank), work = pipeline.work(rank);
      bound.largestSpan = std::max(bound.largestSpan, work + head);
      bound.makespan = std::max(bound.makespan, start + work + head);
      double beforeLast = head + std::max(0.0, work - workAfterLastForward(rank));
      for (unsigned other = 0; other < pipeline.ranks; ++other) {
        double way = wayAfter(lastStage(rank), firstStage(other));
        bound.makespan = std::max(bound.makespan, start + beforeLast + way);
        double lead = start - forwardStart[firstStage(other)];
        if (lead >= 0)
          bound.largestSpan = std::max(bound.largestSpan, lead + beforeLast + way);
      }
    }
    return bound;
  }

private:
  unsigned firstStage(unsigned rank) const { return pipeline.stage(rank, 0); }
  unsigned lastStage(unsigned rank) const { return pipeline.stage(rank, pipeline.chunks - 1); }

  /// The smallest memory and the largest time of a rank's forwards.
  double minForwardMemory(unsigned rank) const {
    double minimum = std::numeric_limits<double>::infinity();
    for (unsigned chunk = 0; chunk < pipeline.chunks; ++chunk)
      minimum = std::min(minimum, pipeline.memory[ForwardPass][pipeline.stage(rank, chunk)]);
    return minimum;
  }
  double forwardWork(unsigned rank) const {
    double sum = 0;
    for (unsigned chunk = 0; chunk < pipeline.chunks; ++chunk)
      sum += pipeline.cost[ForwardPass][pipeline.stage(rank, chunk)];
    return sum * pipeline.microbatches;
  }
  /// Forwards that fit in the memory before anything is released; infinity without a limit.
  double forwardsThatFit(unsigned rank) const {
    double memory = minForwardMemory(rank);
    return memory > 0 ? std::floor(pipeline.memoryLimit * (1 + 1e-9) / memory)
                      : std::numeric_limits<double>::infinity();
  }

  double headIdle(unsigned rank) const {
    double way = inputStart[lastStage(rank)] - forwardStart[firstStage(rank)];
    double longest = 0;
    for (unsigned chunk = 0; chunk < pipeline.chunks; ++chunk)
      longest = std::max(longest, pipeline.cost[ForwardPass][pipeline.stage(rank, chunk)]);
    double fit = forwardsThatFit(rank);
    double busy = std::min(forwardWork(rank), fit * longest);
    // If every forward fits, the last one may come before the first gradient: then the idle time
    // need not lie before the last forward, which is how the tail uses it.
    if (fit >= double(pipeline.microbatches) * pipeline.chunks)
      return 0;
    return std::max(0.0, way - busy);
  }

  /// The most work a rank can have left when its last forward (of its last stage) starts.
  double workAfterLastForward(unsigned rank) const {
    double work = pipeline.work(rank), density = 0;
    for (unsigned chunk = 0; chunk < pipeline.chunks; ++chunk) {
      unsigned stage = pipeline.stage(rank, chunk);
      double input = pipeline.cost[InputPass][stage], weight = pipeline.cost[WeightPass][stage];
      double held = pipeline.memory[ForwardPass][stage];
      double heldByWeight = -pipeline.memory[WeightPass][stage];
      if ((input + weight > 0 && held <= 0) || (weight > 0 && heldByWeight <= 0))
        return work;
      density = std::max({density, (input + weight) / held, weight / heldByWeight});
    }
    unsigned last = lastStage(rank);
    double room = pipeline.memoryLimit * (1 + 1e-9) - pipeline.memory[ForwardPass][last];
    if (room == std::numeric_limits<double>::infinity())
      return work;
    double own = 0;
    for (const std::vector<double> &pass : pipeline.cost)
      own += pass[last];
    double held = room * density;
    if (pipeline.chunks == 1)
      held = std::min(held, largestContent(last, room));
    return std::min(work, own + held);
  }

  /// One chunk: whole activations and whole pending weight gradients, not fractions of them.
  double largestContent(unsigned stage, double room) const {
    double input = pipeline.cost[InputPass][stage], weight = pipeline.cost[WeightPass][stage];
    double held = pipeline.memory[ForwardPass][stage];
    double heldByWeight = -pipeline.memory[WeightPass][stage];
    double best = 0, maximum = std::floor(room / held);
    if (maximum > 1e6)
      return std::numeric_limits<double>::infinity();
    for (double count = 0; count <= maximum; ++count)
      best = std::max(best, count * (input + weight) +
                                std::floor((room - count * held) / heldByWeight) * weight);
    return best;
  }

  /// From the start of a forward at `from` to the end of the same microbatch's weight gradient at
  /// `to`, if nothing waits.
  double wayAfter(unsigned from, unsigned to) const {
    return inputStart[to] - forwardStart[from] + pipeline.cost[InputPass][to] +
           pipeline.cost[WeightPass][to];
  }

  const Pipeline &pipeline;
  unsigned stages;
  std::vector<double> forwardStart, inputStart;
};
} // namespace

LowerBound cleave::schedule::search::lowerBound(const Pipeline &pipeline) {
  return Bounds(pipeline).run();
}
