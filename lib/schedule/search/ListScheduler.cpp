// The list scheduler: an event per moment at which a rank may find something to do.
#include "lib/schedule/search/ListScheduler.h"

#include <limits>
#include <queue>

using namespace cleave::schedule::search;

static constexpr double never = std::numeric_limits<double>::infinity();

namespace {
class Scheduler {
public:
  Scheduler(const Pipeline &pipeline, const Urgency &urgency)
      : pipeline(pipeline), patience(urgency.patience), chunks(pipeline.chunks),
        stages(pipeline.stages()), microbatches(pipeline.microbatches),
        ready(3 * size_t(stages) * microbatches, never), state(pipeline.ranks),
        linkFree(pipeline.numLinks, 0), period(periodOf(pipeline)),
        latencies(getLatencies(pipeline, urgency)) {
    order.chunks = chunks;
    order.ranks.resize(pipeline.ranks);
    for (RankState &rank : state)
      rank.next.assign(3 * chunks, 0);
  }

  std::optional<PassOrder> run() {
    std::fill(ready.begin(), ready.begin() + microbatches, 0.0);
    for (unsigned rank = 0; rank < pipeline.ranks; ++rank)
      events.emplace(0.0, rank);
    while (!events.empty()) {
      auto [now, rank] = events.top();
      events.pop();
      if (now >= state[rank].clock - 1e-12)
        decide(rank, now);
    }
    if (done != 3 * size_t(stages) * microbatches)
      return std::nullopt;
    return std::move(order);
  }

private:
  struct RankState {
    double clock = 0, memory = 0;
    std::vector<unsigned> next; // the next microbatch by type
  };
  /// A pass that a rank could run next.
  struct Candidate {
    unsigned type = 0;
    double due = never, arrives = 0;
  };

  size_t indexOf(unsigned pass, unsigned stage, unsigned microbatch) const {
    return (size_t(pass) * stages + stage) * microbatches + microbatch;
  }

  bool admits(const RankState &self, unsigned pass, unsigned chunk, unsigned stage) const {
    if (pass != ForwardPass)
      return true;
    double need = pipeline.memory[ForwardPass][stage];
    return pipeline.fits(self.memory + (chunk + 1 < chunks ? 2 * need : need));
  }

  void decide(unsigned rank, double now) {
    RankState &self = state[rank];
    Candidate best, weight, later[240];
    unsigned numLater = 0;
    double blockedDue = never, nextArrival = never;
    for (unsigned type = 0; type < 3 * chunks; ++type) {
      unsigned pass = type / chunks, chunk = type % chunks, microbatch = self.next[type];
      if (microbatch >= microbatches)
        continue;
      unsigned stage = pipeline.stage(rank, chunk);
      double arrives = ready[indexOf(pass, stage, microbatch)];
      if (arrives == never)
        continue;
      double due = microbatch * period + latencies.of[pass][stage];
      Candidate candidate{type, due, arrives};
      bool admitted = admits(self, pass, chunk, stage);
      if (arrives > now + 1e-9) {
        if (admitted) {
          later[numLater++] = candidate;
          nextArrival = std::min(nextArrival, arrives);
        }
      } else if (!admitted) {
        blockedDue = std::min(blockedDue, due);
      } else {
        if (due < best.due)
          best = candidate;
        if (pass == WeightPass && due < weight.due)
          weight = candidate;
      }
    }
    if (best.due == never) {
      if (nextArrival < never)
        events.emplace(nextArrival, rank);
      return;
    }
    // What is most urgent has no room: weight gradients make some.
    if (blockedDue < best.due && weight.due < never)
      best = weight;
    unsigned stage = pipeline.stage(rank, best.type % chunks);
    double wait = patience * pipeline.cost[best.type / chunks][stage], until = never;
    for (unsigned i = 0; i < numLater; ++i)
      if (later[i].due < best.due && later[i].arrives - now < wait)
        until = std::min(until, later[i].arrives);
    if (until < never)
      events.emplace(until, rank);
    else
      execute(rank, best.type, stage, now);
  }

  void execute(unsigned rank, unsigned type, unsigned stage, double now) {
    RankState &self = state[rank];
    unsigned pass = type / chunks, microbatch = self.next[type]++;
    double end = self.clock = now + pipeline.cost[pass][stage];
    self.memory += pipeline.memory[pass][stage];
    order.ranks[rank].push_back(static_cast<uint8_t>(type));
    ++done;
    if (pass == ForwardPass) {
      if (stage + 1 == stages)
        ready[indexOf(InputPass, stage, microbatch)] = end;
      else
        hand(rank, indexOf(ForwardPass, stage + 1, microbatch), end, pipeline.sendForward[stage],
             pipeline.forwardLink[stage], stage + 1);
    } else if (pass == InputPass) {
      ready[indexOf(WeightPass, stage, microbatch)] = end;
      if (stage > 0)
        hand(rank, indexOf(InputPass, stage - 1, microbatch), end, pipeline.sendBackward[stage],
             pipeline.backwardLink[stage], stage - 1);
    }
    events.emplace(end, rank);
  }

  void hand(unsigned rank, size_t index, double end, double transfer, unsigned link,
            unsigned toStage) {
    if (link == Pipeline::noLink) {
      ready[index] = end;
      return;
    }
    ready[index] = linkFree[link] = std::max(linkFree[link], end) + transfer;
    unsigned to = pipeline.topology.rankOf(toStage);
    events.emplace(std::max(ready[index], state[to].clock), to);
  }

  const Pipeline &pipeline;
  double patience;
  unsigned chunks, stages, microbatches;
  std::vector<double> ready; // by pass, stage, microbatch
  std::vector<RankState> state;
  std::vector<double> linkFree;
  double period;
  Latencies latencies;
  using Event = std::pair<double, unsigned>;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  PassOrder order;
  size_t done = 0;
};
} // namespace

std::optional<PassOrder> cleave::schedule::search::listSchedule(const Pipeline &pipeline,
                                                                const Urgency &urgency) {
  return Scheduler(pipeline, urgency).run();
}
