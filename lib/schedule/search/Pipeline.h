// A scheduling problem in flat arrays, and the form in which the search holds its solutions.

#ifndef CLEAVE_LIB_SCHEDULE_SEARCH_PIPELINE_H
#define CLEAVE_LIB_SCHEDULE_SEARCH_PIPELINE_H

#include "lib/schedule/simulate/CostTable.h"

namespace cleave::schedule::search {

/// The three passes of the split backward; the search does not use full backwards.
enum Pass : unsigned { ForwardPass, InputPass, WeightPass };

/// What is to be scheduled, and what it costs. Times and memory as in the cost table.
struct Pipeline {
  Topology topology;
  unsigned ranks = 0, chunks = 0, microbatches = 0;
  /// No limit: infinity.
  double memoryLimit = 0;

  /// By pass and stage.
  std::vector<double> cost[3];
  /// What a pass adds to its rank's memory (negative: releases), by pass and stage.
  std::vector<double> memory[3];
  /// Transfers by producing stage; 0 between stages of one rank.
  std::vector<double> sendForward, sendBackward;
  /// The stages of a rank, ascending: stageOf[rank * chunks + chunk].
  std::vector<unsigned> stageOf;
  /// The link that a stage's transfer takes; noLink within a rank. Transfers on a link follow
  /// each other.
  static constexpr unsigned noLink = ~0u;
  std::vector<unsigned> forwardLink, backwardLink;
  unsigned numLinks = 0;

  /// Fails unless every rank has the same number of stages, at most 80.
  static llvm::Expected<Pipeline> get(const Topology &topology, unsigned microbatches,
                                      const simulate::CostTable &costs, double memoryLimit);

  unsigned stages() const { return ranks * chunks; }
  unsigned stage(unsigned rank, unsigned chunk) const { return stageOf[rank * chunks + chunk]; }
  /// Compute time of a rank's passes of all microbatches.
  double work(unsigned rank) const;
  /// Whether `memory` is within the limit, up to rounding.
  bool fits(double memory) const { return memory <= memoryLimit * (1 + 1e-9); }
};

/// For each rank the order of its passes, each as pass * chunks + chunk. The n-th occurrence is of
/// microbatch n: microbatches stay in order, which loses nothing if all are alike.
struct PassOrder {
  unsigned chunks = 1;
  std::vector<std::vector<uint8_t>> ranks;
};

/// Nullopt if the program has anything but F, I and W (a full backward becomes I and W), or takes
/// microbatches out of order.
std::optional<PassOrder> fromSchedule(const Schedule &program);
Schedule toSchedule(const PassOrder &order, const Topology &topology, unsigned microbatches);

} // namespace cleave::schedule::search

#endif // CLEAVE_LIB_SCHEDULE_SEARCH_PIPELINE_H
