// A simulation in which weight gradients are placed when they are found to be of use.
#include "lib/schedule/search/WeightFill.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

using namespace cleave::schedule::search;

static constexpr double never = std::numeric_limits<double>::infinity();

namespace {
class Filler {
public:
  Filler(const Pipeline &pipeline, const PassOrder &order, double threshold)
      : pipeline(pipeline), order(order), threshold(threshold), chunks(pipeline.chunks),
        microbatches(pipeline.microbatches),
        forwardReady(size_t(pipeline.stages()) * microbatches, never),
        gradientReady(forwardReady.size(), never), linkFree(pipeline.numLinks, 0),
        state(pipeline.ranks) {
    result.chunks = chunks;
    result.ranks.resize(pipeline.ranks);
    for (RankState &rank : state)
      rank.counts.assign(3 * chunks, 0);
  }

  std::optional<PassOrder> run() {
    std::fill(forwardReady.begin(), forwardReady.begin() + microbatches, 0.0);
    for (unsigned rank = 0; rank < pipeline.ranks; ++rank)
      pending.push_back(rank);
    while (!pending.empty() && !outOfMemory) {
      unsigned rank = pending.back();
      pending.pop_back();
      advance(rank);
    }
    for (unsigned rank = 0; rank < pipeline.ranks; ++rank) {
      if (outOfMemory || state[rank].position != order.ranks[rank].size())
        return std::nullopt;
      while (!state[rank].weights.empty())
        runWeight(rank);
    }
    return std::move(result);
  }

private:
  struct RankState {
    size_t position = 0;
    double clock = 0, memory = 0;
    std::vector<unsigned> counts;
    std::deque<unsigned> weights; // chunks
  };

  void emit(unsigned rank, unsigned pass, unsigned chunk, double start) {
    RankState &self = state[rank];
    unsigned stage = pipeline.stage(rank, chunk);
    result.ranks[rank].push_back(static_cast<uint8_t>(pass * chunks + chunk));
    self.clock = start + pipeline.cost[pass][stage];
    self.memory += pipeline.memory[pass][stage];
  }
  void runWeight(unsigned rank) {
    unsigned chunk = state[rank].weights.front();
    state[rank].weights.pop_front();
    emit(rank, WeightPass, chunk, state[rank].clock);
  }

  void advance(unsigned rank) {
    RankState &self = state[rank];
    const std::vector<uint8_t> &list = order.ranks[rank];
    for (; self.position < list.size(); ++self.position) {
      unsigned type = list[self.position], pass = type / chunks, chunk = type % chunks;
      if (pass == WeightPass)
        continue;
      unsigned stage = pipeline.stage(rank, chunk);
      size_t index = size_t(stage) * microbatches + self.counts[type];
      double ready = pass == ForwardPass ? forwardReady[index] : gradientReady[index];
      if (ready == never)
        return;
      double more = pipeline.memory[pass][stage];
      auto blocked = [&] { return more > 0 && !pipeline.fits(self.memory + more); };
      while (!self.weights.empty() &&
             (blocked() || ready - self.clock > threshold * nextWeight(rank)))
        runWeight(rank);
      if (blocked()) {
        outOfMemory = true;
        return;
      }
      ++self.counts[type];
      emit(rank, pass, chunk, std::max(self.clock, ready));
      if (pass == InputPass)
        self.weights.push_back(chunk);
      publish(pass, stage, index, self.clock);
    }
  }
  double nextWeight(unsigned rank) const {
    return pipeline.cost[WeightPass][pipeline.stage(rank, state[rank].weights.front())];
  }

  void publish(unsigned pass, unsigned stage, size_t index, double end) {
    bool forward = pass == ForwardPass;
    if (forward && stage + 1 == pipeline.stages()) {
      gradientReady[index] = end;
      return;
    }
    if (!forward && stage == 0)
      return;
    unsigned to = forward ? stage + 1 : stage - 1;
    unsigned link = forward ? pipeline.forwardLink[stage] : pipeline.backwardLink[stage];
    double transfer = forward ? pipeline.sendForward[stage] : pipeline.sendBackward[stage];
    double &ready =
        forward ? forwardReady[index + microbatches] : gradientReady[index - microbatches];
    if (link == Pipeline::noLink) {
      ready = end;
      return;
    }
    ready = linkFree[link] = std::max(linkFree[link], end) + transfer;
    pending.push_back(pipeline.topology.rankOf(to));
  }

  const Pipeline &pipeline;
  const PassOrder &order;
  double threshold;
  unsigned chunks;
  size_t microbatches;
  std::vector<double> forwardReady, gradientReady, linkFree;
  std::vector<RankState> state;
  std::vector<unsigned> pending;
  PassOrder result;
  bool outOfMemory = false;
};
} // namespace

std::optional<PassOrder> cleave::schedule::search::refillWeights(const Pipeline &pipeline,
                                                                 const PassOrder &order,
                                                                 double threshold) {
  return Filler(pipeline, order, threshold).run();
}

PassOrder cleave::schedule::search::alternating(const Pipeline &pipeline, double slope) {
  PassOrder order;
  order.ranks.resize(pipeline.ranks);
  unsigned microbatches = pipeline.microbatches;
  for (unsigned rank = 0; rank < pipeline.ranks; ++rank) {
    double memory = pipeline.memory[ForwardPass][rank];
    double fit = memory > 0 ? std::floor(pipeline.memoryLimit * (1 + 1e-9) / memory) : microbatches;
    double wanted = std::round(1 + slope * (pipeline.ranks - 1 - rank));
    unsigned forwards = unsigned(std::clamp(std::min(wanted, fit), 1.0, double(microbatches)));
    std::vector<uint8_t> &list = order.ranks[rank];
    list.assign(forwards, uint8_t(ForwardPass));
    for (unsigned i = 0; i < microbatches; ++i) {
      list.push_back(InputPass);
      if (forwards < microbatches) {
        list.push_back(ForwardPass);
        ++forwards;
      }
    }
  }
  return order;
}
