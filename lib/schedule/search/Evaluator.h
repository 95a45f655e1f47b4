// Times of a pass order, fast enough to be asked a hundred thousand times.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_EVALUATOR_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_EVALUATOR_H

#include "lib/schedule/search/Pipeline.h"

namespace cleave::schedule::search {

/// Evaluates orders of one pipeline; keeps its buffers between calls.
class Evaluator {
public:
  explicit Evaluator(const Pipeline &pipeline);

  /// Computes all times. False if the order cannot run to its end; the results below are then
  /// meaningless. O(passes).
  bool run(const PassOrder &order);
  /// Whether a rank's order keeps within the memory limit.
  bool fitsMemory(const std::vector<uint8_t> &passes, unsigned rank) const;
  bool fitsMemory(const PassOrder &order) const;

  double makespan = 0;
  /// The largest span of a rank, from the start of its first pass to the end of its last; which
  /// rank; and the mean over all ranks.
  double largestSpan = 0;
  unsigned largestRank = 0;
  double meanSpan = 0;

  double startOf(unsigned rank, size_t position) const { return starts[rank][position]; }

  /// Consecutive passes of one rank on a critical path, none of which waits for another rank
  /// except the first.
  struct Block {
    unsigned rank;
    unsigned first, last; // positions
  };
  /// The chain of passes that decides when `rank` ends, last block first. After run().
  void traceCriticalPath(const PassOrder &order, unsigned rank, std::vector<Block> &blocks);

private:
  const Pipeline &pipeline;
  std::vector<double> forwardReady, gradientReady; // by stage and microbatch
  std::vector<double> linkFree;
  std::vector<std::vector<double>> starts;
  std::vector<std::vector<uint8_t>> waited; // whether a pass started on an arrival
  std::vector<double> clock, first;
  std::vector<size_t> position;
  std::vector<uint32_t> counts; // by rank and type
  std::vector<unsigned> pending;
  std::vector<uint8_t> queued;
};

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_EVALUATOR_H
