// The annealing. As in job-shop search, only changes on a critical path can help at once: a path
// leaves a rank with a pass whose result another rank waits for, so that pass is moved forward in
// its block, or another pass of the block after it. Some moves are made at random, to get around
// plateaus with many critical paths.
#include "lib/schedule/search/LocalSearch.h"

#include <algorithm>
#include <cmath>

using namespace cleave::schedule::search;

namespace {
struct Move {
  unsigned rank, from, to;
};

class Annealing {
public:
  Annealing(const Pipeline &pipeline, const Objective &objective, const PassOrder &start,
            uint64_t seed)
      : pipeline(pipeline), objective(objective), order(start), random(seed), evaluator(pipeline) {}

  void run(double budget, Solution &best) {
    if (!evaluator.run(order))
      return;
    double current = objective.guide(evaluator);
    // A move worth accepting changes less than a pass does: start at a fraction of one.
    double heat = 0.03 * pipeline.cost[ForwardPass][0];
    double price = 3.0 * pipeline.stages() * pipeline.microbatches;
    double moves = budget / price;
    unsigned sinceTrace = traceEvery;
    for (double move = 0; move < moves; ++move) {
      if (sinceTrace++ >= traceEvery) {
        trace();
        sinceTrace = 0;
      }
      std::optional<Move> chosen = choose();
      if (!chosen)
        continue;
      std::vector<uint8_t> &list = order.ranks[chosen->rank];
      apply(list, chosen->from, chosen->to);
      bool valid = evaluator.fitsMemory(list, chosen->rank) && evaluator.run(order);
      double guide = valid ? objective.guide(evaluator) : 0;
      double temperature = heat * (1 - move / moves) + 1e-9;
      if (!valid ||
          (guide > current && random.uniform() >= std::exp((current - guide) / temperature))) {
        apply(list, chosen->to, chosen->from);
        continue;
      }
      if (guide != current)
        sinceTrace = traceEvery;
      current = guide;
      if (objective.score(evaluator) < best.score && objective.allows(evaluator)) {
        best.score = objective.score(evaluator);
        best.order = order;
      }
    }
  }

private:
  static constexpr unsigned traceEvery = 200;

  static void apply(std::vector<uint8_t> &list, unsigned from, unsigned to) {
    if (from < to)
      std::rotate(list.begin() + from, list.begin() + from + 1, list.begin() + to + 1);
    else
      std::rotate(list.begin() + to, list.begin() + from, list.begin() + from + 1);
  }

  void trace() {
    evaluator.run(order);
    unsigned rank = random.uniform() < 0.3 ? random.below(pipeline.ranks) : evaluator.largestRank;
    evaluator.traceCriticalPath(order, rank, blocks);
  }

  std::optional<Move> choose() {
    const Evaluator::Block &block = blocks[random.below(unsigned(blocks.size()))];
    unsigned size = unsigned(order.ranks[block.rank].size());
    double kind = random.uniform();
    Move move{block.rank, 0, 0};
    if (kind < 0.4) {
      unsigned reach = std::min(std::max(1u, block.last - block.first), 12u);
      unsigned distance = 1 + random.below(reach);
      if (distance > block.last)
        return std::nullopt;
      move.from = block.last;
      move.to = block.last - distance;
    } else if (kind < 0.7) {
      move.from = block.first + random.below(block.last - block.first + 1);
      move.to = std::min(size - 1, block.last + random.below(6));
      if (move.to <= move.from)
        return std::nullopt;
    } else {
      move.from = random.below(size);
      unsigned to = move.from + random.below(25);
      if (to < 12 || to - 12 >= size)
        return std::nullopt;
      move.to = to - 12;
    }
    // Passing only passes of its own type changes nothing.
    const std::vector<uint8_t> &list = order.ranks[block.rank];
    auto [low, high] = std::minmax(move.from, move.to);
    bool same = std::all_of(list.begin() + low, list.begin() + high + 1,
                            [&](uint8_t type) { return type == list[move.from]; });
    return same ? std::nullopt : std::optional(move);
  }

  const Pipeline &pipeline;
  const Objective &objective;
  PassOrder order;
  Random random;
  Evaluator evaluator;
  std::vector<Evaluator::Block> blocks;
};
} // namespace

void cleave::schedule::search::anneal(const Pipeline &pipeline, const Objective &objective,
                                      const PassOrder &start, double budget, uint64_t seed,
                                      Solution &best) {
  Annealing(pipeline, objective, start, seed).run(budget, best);
}
