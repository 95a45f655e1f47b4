// The evolution: a third of the budget on random points, the rest on improving the best few.
#include "lib/schedule/search/Evolution.h"

#include "lib/schedule/search/ListScheduler.h"

#include <algorithm>
#include <cmath>

using namespace cleave::schedule::search;

namespace {
/// The parameters as one vector, with the size of a typical step in each direction.
using Point = std::vector<double>;

class Space {
public:
  explicit Space(const Pipeline &pipeline) : chunks(pipeline.chunks), ranks(pipeline.ranks) {}

  Point sample(Random &random) const {
    Point point;
    for (unsigned i = 0; i < 2 * chunks; ++i)
      point.push_back(random.uniform(1, 3.5));
    for (unsigned i = 0; i < 3; ++i)
      point.push_back(random.uniform(0, 0.2 * ranks));
    for (unsigned i = 0; i < 2 * chunks; ++i)
      point.push_back(ranks * std::exp(random.uniform(-3, 1.2)));
    point.push_back(random.uniform(0, 1.2));
    return point;
  }
  double step(size_t dimension) const {
    if (dimension < 2 * chunks)
      return 1;
    if (dimension < 2 * chunks + 3)
      return 0.1 * ranks;
    return dimension < 4 * chunks + 3 ? 0.7 * ranks : 0.6;
  }
  Urgency decode(const Point &point) const {
    Urgency urgency;
    auto next = point.begin();
    urgency.forwardSlack.assign(next, next + chunks);
    urgency.inputSlack.assign(next + chunks, next + 2 * chunks);
    next += 2 * chunks;
    urgency.forwardTurn = *next++;
    urgency.lossTurn = *next++;
    urgency.backwardTurn = *next++;
    urgency.weightDelayFirst.assign(next, next + chunks);
    urgency.weightDelayLast.assign(next + chunks, next + 2 * chunks);
    urgency.patience = std::clamp(point.back(), 0.0, 1.5);
    return urgency;
  }

private:
  unsigned chunks, ranks;
};
} // namespace

void cleave::schedule::search::evolve(const Pipeline &pipeline, const Objective &objective,
                                      double budget, uint64_t seed, Solution &best) {
  Space space(pipeline);
  Random random(seed);
  Evaluator evaluator(pipeline);
  // List scheduling costs several times an evaluation, and is counted as such.
  double price = 6.0 * 3 * pipeline.stages() * pipeline.microbatches, spent = 0;
  auto tryPoint = [&](const Point &point) {
    spent += price;
    std::optional<PassOrder> order = listSchedule(pipeline, space.decode(point));
    if (!order || !evaluator.run(*order))
      return std::numeric_limits<double>::infinity();
    double score = objective.score(evaluator);
    if (score < best.score)
      best.offer(*order, evaluator, objective);
    return score;
  };
  std::vector<std::pair<double, Point>> pool;
  do {
    Point point = space.sample(random);
    pool.emplace_back(tryPoint(point), point);
  } while (spent < 0.3 * budget);
  std::sort(pool.begin(), pool.end());
  // Far from what other candidates reach, evolution does not catch up.
  if (pool.front().first > 1.04 * best.score)
    return;
  pool.resize(std::min<size_t>(pool.size(), 4));
  std::vector<double> width(pool.size(), 0.3);
  while (spent < budget)
    for (size_t parent = 0; parent < pool.size() && spent < budget; ++parent) {
      Point point = pool[parent].second;
      for (size_t i = 0; i < point.size(); ++i)
        if (random.uniform() < 0.4)
          point[i] += random.normal() * width[parent] * space.step(i);
      double score = tryPoint(point);
      if (score > pool[parent].first) {
        width[parent] = std::max(0.01, width[parent] * 0.98);
        continue;
      }
      if (score < pool[parent].first)
        width[parent] = std::min(0.5, width[parent] * 1.3);
      pool[parent] = {score, point};
    }
}
