// The evaluation: ranks advance until an input is missing, as in the simulator, without its detail.
#include "lib/schedule/search/Evaluator.h"

#include <algorithm>
#include <limits>

using namespace cleave::schedule::search;

static constexpr double never = std::numeric_limits<double>::infinity();

Evaluator::Evaluator(const Pipeline &pipeline)
    : pipeline(pipeline), forwardReady(size_t(pipeline.stages()) * pipeline.microbatches),
      gradientReady(forwardReady.size()), linkFree(pipeline.numLinks), starts(pipeline.ranks),
      waited(pipeline.ranks), clock(pipeline.ranks), first(pipeline.ranks),
      position(pipeline.ranks), counts(size_t(pipeline.ranks) * 3 * pipeline.chunks),
      queued(pipeline.ranks) {}

bool Evaluator::run(const PassOrder &order) {
  unsigned ranks = pipeline.ranks, chunks = pipeline.chunks, stages = pipeline.stages();
  size_t microbatches = pipeline.microbatches;
  std::fill(forwardReady.begin(), forwardReady.begin() + microbatches, 0.0);
  std::fill(forwardReady.begin() + microbatches, forwardReady.end(), never);
  std::fill(gradientReady.begin(), gradientReady.end(), never);
  std::fill(linkFree.begin(), linkFree.end(), 0.0);
  std::fill(counts.begin(), counts.end(), 0);
  pending.clear();
  for (unsigned rank = ranks; rank-- > 0;) {
    clock[rank] = 0;
    first[rank] = -1;
    position[rank] = 0;
    starts[rank].resize(order.ranks[rank].size());
    waited[rank].resize(order.ranks[rank].size());
    pending.push_back(rank);
    queued[rank] = true;
  }
  // Hands a result on, at once or over a link, and wakes the rank that has it then.
  auto hand = [&](double end, double transfer, unsigned link, double &ready, unsigned toStage) {
    if (link == Pipeline::noLink) {
      ready = end;
      return;
    }
    ready = linkFree[link] = std::max(linkFree[link], end) + transfer;
    unsigned to = pipeline.topology.rankOf(toStage);
    if (!queued[to]) {
      queued[to] = true;
      pending.push_back(to);
    }
  };
  while (!pending.empty()) {
    unsigned rank = pending.back();
    pending.pop_back();
    queued[rank] = false;
    const std::vector<uint8_t> &list = order.ranks[rank];
    uint32_t *count = &counts[size_t(rank) * 3 * chunks];
    double now = clock[rank];
    size_t at = position[rank];
    for (; at < list.size(); ++at) {
      unsigned type = list[at], pass = type / chunks, chunk = type % chunks;
      unsigned stage = pipeline.stage(rank, chunk);
      uint32_t microbatch = count[type];
      if (microbatch >= microbatches)
        return false;
      size_t index = stage * microbatches + microbatch;
      if (pass == WeightPass) {
        if (count[InputPass * chunks + chunk] <= microbatch)
          return false;
        ++count[type];
        starts[rank][at] = now;
        waited[rank][at] = false;
        now += pipeline.cost[WeightPass][stage];
        continue;
      }
      double ready = pass == ForwardPass ? forwardReady[index] : gradientReady[index];
      if (ready == never)
        break;
      ++count[type];
      waited[rank][at] = ready > now;
      now = std::max(now, ready);
      if (first[rank] < 0)
        first[rank] = now;
      starts[rank][at] = now;
      now += pipeline.cost[pass][stage];
      if (pass == ForwardPass) {
        if (stage + 1 == stages)
          gradientReady[index] = now;
        else
          hand(now, pipeline.sendForward[stage], pipeline.forwardLink[stage],
               forwardReady[index + microbatches], stage + 1);
      } else if (stage > 0) {
        hand(now, pipeline.sendBackward[stage], pipeline.backwardLink[stage],
             gradientReady[index - microbatches], stage - 1);
      }
    }
    clock[rank] = now;
    position[rank] = at;
  }
  makespan = largestSpan = meanSpan = 0;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    if (position[rank] != order.ranks[rank].size())
      return false;
    double span = clock[rank] - first[rank];
    meanSpan += span / ranks;
    makespan = std::max(makespan, clock[rank]);
    if (span > largestSpan) {
      largestSpan = span;
      largestRank = rank;
    }
  }
  return true;
}

bool Evaluator::fitsMemory(const std::vector<uint8_t> &passes, unsigned rank) const {
  if (pipeline.memoryLimit == never)
    return true;
  double memory = 0;
  for (uint8_t type : passes) {
    memory += pipeline.memory[type / pipeline.chunks][pipeline.stage(rank, type % pipeline.chunks)];
    if (!pipeline.fits(memory))
      return false;
  }
  return true;
}

bool Evaluator::fitsMemory(const PassOrder &order) const {
  for (unsigned rank = 0; rank < pipeline.ranks; ++rank)
    if (!fitsMemory(order.ranks[rank], rank))
      return false;
  return true;
}

void Evaluator::traceCriticalPath(const PassOrder &order, unsigned rank,
                                  std::vector<Block> &blocks) {
  unsigned chunks = pipeline.chunks, stages = pipeline.stages();
  // Where each pass of each stage is: positions by pass and stage, in microbatch order.
  std::vector<std::vector<unsigned>> where(3 * size_t(stages));
  std::vector<std::vector<unsigned>> microbatchAt(pipeline.ranks);
  for (unsigned r = 0; r < pipeline.ranks; ++r) {
    microbatchAt[r].reserve(order.ranks[r].size());
    for (unsigned at = 0; at < order.ranks[r].size(); ++at) {
      unsigned type = order.ranks[r][at];
      auto &list = where[size_t(type / chunks) * stages + pipeline.stage(r, type % chunks)];
      microbatchAt[r].push_back(unsigned(list.size()));
      list.push_back(at);
    }
  }
  blocks.clear();
  unsigned at = unsigned(order.ranks[rank].size()) - 1;
  while (true) {
    unsigned last = at;
    while (at > 0 && !waited[rank][at])
      --at;
    blocks.push_back({rank, at, last});
    if (!waited[rank][at])
      return;
    unsigned type = order.ranks[rank][at], pass = type / chunks;
    unsigned stage = pipeline.stage(rank, type % chunks), microbatch = microbatchAt[rank][at];
    if (pass == ForwardPass ? stage == 0 : stage + 1 == stages)
      return;
    unsigned producer = pass == ForwardPass ? stage - 1 : stage + 1;
    rank = pipeline.topology.rankOf(producer);
    at = where[size_t(pass) * stages + producer][microbatch];
  }
}
