// When passes are due.
#include "lib/schedule/search/Urgency.h"

#include <algorithm>

using namespace cleave::schedule::search;

double cleave::schedule::search::periodOf(const Pipeline &pipeline) {
  return pipeline.work(0) / pipeline.microbatches;
}

Latencies cleave::schedule::search::getLatencies(const Pipeline &pipeline, const Urgency &urgency) {
  const unsigned ranks = pipeline.ranks, stages = pipeline.stages();
  const double period = periodOf(pipeline);
  Latencies latencies;
  for (std::vector<double> &list : latencies.of)
    list.resize(stages);
  auto &[forward, input, weight] = latencies.of;
  double time = 0;
  for (unsigned stage = 0; stage < stages; ++stage) {
    forward[stage] = time;
    time += (pipeline.cost[ForwardPass][stage] + pipeline.sendForward[stage]) *
            urgency.forwardSlack[stage / ranks];
    if (stage % ranks == ranks - 1 && stage + 1 < stages)
      time += urgency.forwardTurn * period;
  }
  time += urgency.lossTurn * period;
  for (unsigned stage = stages; stage-- > 0;) {
    unsigned chunk = stage / ranks;
    input[stage] = time;
    double along = ranks > 1 ? double(pipeline.topology.rankOf(stage)) / (ranks - 1) : 0;
    double delay =
        urgency.weightDelayFirst[chunk] * (1 - along) + urgency.weightDelayLast[chunk] * along;
    weight[stage] = time + pipeline.cost[InputPass][stage] + delay * period;
    time += (pipeline.cost[InputPass][stage] + pipeline.sendBackward[stage]) *
            urgency.inputSlack[chunk];
    if (stage % ranks == 0 && stage > 0)
      time += urgency.backwardTurn * period;
  }
  return latencies;
}

PassOrder cleave::schedule::search::orderByDue(const Pipeline &pipeline, const Urgency &urgency) {
  const Latencies latencies = getLatencies(pipeline, urgency);
  const double period = periodOf(pipeline);
  PassOrder order;
  order.chunks = pipeline.chunks;
  std::vector<std::pair<double, uint8_t>> due;
  for (unsigned rank = 0; rank < pipeline.ranks; ++rank) {
    due.clear();
    for (unsigned microbatch = 0; microbatch < pipeline.microbatches; ++microbatch)
      for (unsigned pass : {ForwardPass, InputPass, WeightPass})
        for (unsigned chunk = 0; chunk < pipeline.chunks; ++chunk)
          due.push_back({microbatch * period + latencies.of[pass][pipeline.stage(rank, chunk)],
                         static_cast<uint8_t>(pass * pipeline.chunks + chunk)});
    std::stable_sort(due.begin(), due.end(),
                     [](const auto &a, const auto &b) { return a.first < b.first; });
    std::vector<uint8_t> &list = order.ranks.emplace_back();
    for (auto [time, type] : due)
      list.push_back(type);
  }
  return order;
}
