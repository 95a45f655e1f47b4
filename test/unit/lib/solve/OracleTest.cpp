// Problems of up to 60 nodes, far more assignments than can be gone through, against another exact
// method: their nodes have an order in which edges and live ranges reach no further than the last
// few, so that dynamic programming over the choices of those finds the optimum, memory included.
// The solver gets the nodes in another order.

#include "lib/solve/Branching.h"
#include "lib/solve/Solve.h"

#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>

using namespace cleave::solve;

namespace {

/// A node sees itself and the last three, each with up to four choices.
constexpr unsigned window = 4, mostChoices = 4;

struct Strip {
  Problem problem;
  /// By position: the node's number.
  std::vector<unsigned> order;
  /// By position: the edges whose other end is the node itself or comes earlier.
  std::vector<std::vector<unsigned>> edges;
};

Strip makeStrip(std::mt19937_64 &random, unsigned least = 20, unsigned most = 60) {
  auto below = [&](uint64_t count) { return static_cast<int64_t>(random() % count); };
  Strip strip;
  unsigned count = least + below(most - least + 1);
  strip.order.resize(count);
  std::iota(strip.order.begin(), strip.order.end(), 0);
  std::shuffle(strip.order.begin(), strip.order.end(), random);
  std::vector<unsigned> positions(count), sizes(count);
  for (auto [position, node] : llvm::enumerate(strip.order))
    positions[node] = position;
  bool isForbidding = below(2) == 0;
  int64_t range = below(3) == 0 ? 5 : 1000;
  auto cost = [&] { return isForbidding && below(8) == 0 ? forbidden : below(range); };
  std::vector<int64_t> costs, usages;
  for (unsigned node = 0; node < count; ++node) {
    sizes[node] = 1 + below(mostChoices);
    costs.clear();
    usages.clear();
    for (unsigned choice = 0; choice < sizes[node]; ++choice) {
      costs.push_back(cost());
      usages.push_back(below(20));
    }
    int64_t start = positions[node];
    strip.problem.addNode(start, start + below(window + 1), costs, usages);
  }
  strip.edges.resize(count);
  for (unsigned position = 0; position < count; ++position)
    for (int64_t edges = below(4); edges > 0; --edges) {
      unsigned first = strip.order[position];
      unsigned second = strip.order[position - below(std::min(position + 1, window))];
      if (below(2))
        std::swap(first, second);
      Matrix matrix{sizes[first], sizes[second], {}};
      for (unsigned i = 0; i < matrix.rows * matrix.columns; ++i)
        matrix.costs.push_back(cost());
      strip.edges[position].push_back(strip.problem.getEdges().size());
      strip.problem.addEdge(first, second, strip.problem.addMatrix(std::move(matrix)));
    }
  // From what is too little for most to what is enough.
  strip.problem.limit = 10 + below(50);
  return strip;
}

std::optional<Cost> findOptimum(const Strip &strip) {
  constexpr unsigned states = mostChoices * mostChoices * mostChoices;
  const Problem &problem = strip.problem;
  // By the choices of the last three, the last one's in the lowest digit.
  std::vector<std::optional<Cost>> known(states), next;
  known[0] = 0;
  for (unsigned position = 0; position < strip.order.size(); ++position) {
    unsigned node = strip.order[position];
    next.assign(states, std::nullopt);
    for (unsigned state = 0; state < states; ++state)
      for (unsigned choice = 0; known[state] && choice < problem.getNodes()[node].size; ++choice) {
        unsigned digits = state * mostChoices + choice;
        auto chosen = [&](unsigned back) { return digits >> (2 * back) & (mostChoices - 1); };
        auto chosenBy = [&](unsigned number) {
          unsigned back = 0;
          while (strip.order[position - back] != number)
            ++back;
          return chosen(back);
        };
        int64_t used = 0;
        for (unsigned back = 0; back < window && back <= position; ++back) {
          unsigned other = strip.order[position - back];
          if (problem.getNodes()[other].end > position)
            used += problem.getUsages(other)[chosen(back)];
        }
        int64_t own = problem.getCosts(node)[choice];
        if (used > problem.limit || own == forbidden)
          continue;
        std::optional<Cost> sum = *known[state] + own;
        for (unsigned number : strip.edges[position]) {
          const Edge &edge = problem.getEdges()[number];
          const Matrix &matrix = problem.getMatrices()[edge.matrix];
          int64_t added =
              matrix.costs[chosenBy(edge.first) * matrix.columns + chosenBy(edge.second)];
          if (added == forbidden)
            sum.reset();
          if (!sum)
            break;
          *sum += added;
        }
        std::optional<Cost> &entry = next[digits % states];
        if (sum && (!entry || *sum < *entry))
          entry = sum;
      }
    std::swap(known, next);
  }
  std::optional<Cost> best;
  for (std::optional<Cost> cost : known)
    if (cost && (!best || *cost < *best))
      best = cost;
  return best;
}

} // namespace

TEST(Oracle, ProblemsOfUpTo60Nodes) {
  const char *text = std::getenv("CLEAVE_TEST_SEED");
  std::mt19937_64 random(text ? std::strtoull(text, nullptr, 10) : 1);
  constexpr unsigned count = 500;
  unsigned infeasible = 0, optimal = 0;
  for (unsigned i = 0; i < count; ++i) {
    SCOPED_TRACE(testing::Message()
                 << "CLEAVE_TEST_SEED=" << (text ? text : "1") << ", problem " << i);
    Strip strip = makeStrip(random);
    std::optional<Cost> optimum = findOptimum(strip);
    Problem problem = strip.problem;
    problem.mergeEdges();
    SolveOptions options;
    options.moves = 4096;
    SolveResult result = solve(problem, options);
    if (!optimum) {
      ++infeasible;
      ASSERT_FALSE(result.assignment);
      // Not all are shown to have none.
      optimal += result.bound.isInfeasible;
      continue;
    }
    ASSERT_FALSE(result.bound.isInfeasible);
    ASSERT_TRUE(result.hasBound);
    ASSERT_LE(result.bound.cost, *optimum);
    if (!result.assignment)
      continue;
    ASSERT_TRUE(strip.problem.isFeasible(*result.assignment));
    ASSERT_EQ(toString(*strip.problem.getCost(*result.assignment)), toString(result.cost));
    ASSERT_GE(result.cost, *optimum);
    optimal += result.isOptimal();
  }
  EXPECT_GT(infeasible, count / 20);
  EXPECT_LT(infeasible, count * 9 / 10); // seven of ten, more or less
  EXPECT_EQ(optimal, count);
}

TEST(Oracle, CasesAloneProveOptima) {
  const char *text = std::getenv("CLEAVE_TEST_SEED");
  std::mt19937_64 random(text ? std::strtoull(text, nullptr, 10) : 2);
  constexpr unsigned count = 100, mostSteps = 1000;
  unsigned solved = 0, divided = 0;
  for (unsigned i = 0; i < count; ++i) {
    SCOPED_TRACE(testing::Message()
                 << "CLEAVE_TEST_SEED=" << (text ? text : "2") << ", problem " << i);
    Strip strip = makeStrip(random);
    std::optional<Cost> optimum = findOptimum(strip);
    strip.problem.mergeEdges();
    Model model(strip.problem);
    if (model.isInfeasible()) {
      EXPECT_FALSE(optimum);
      continue;
    }
    Dual dual(model.getProblem(), model.getUse());
    dual.iterate(std::numeric_limits<double>::infinity());
    Branching branching(strip.problem, model, i);
    branching.start(dual.getBest());
    ASSERT_TRUE(branching.isValid());
    bool isOpen = true;
    unsigned steps = 0;
    while (isOpen && ++steps < mostSteps) {
      isOpen = branching.step(1 + i % 3, [] { return false; });
      std::optional<Cost> bound = branching.getBound();
      // At every step, of all problems that have a solution.
      if (optimum) {
        ASSERT_TRUE(bound);
        ASSERT_LE(*bound, *optimum);
      }
    }
    divided += steps > 2;
    if (isOpen || !optimum)
      continue;
    ASSERT_TRUE(branching.getBest());
    EXPECT_EQ(strip.problem.getCost(model.expand(*branching.getBest())), *optimum);
    EXPECT_EQ(*branching.getBound(), *optimum);
    ++solved;
  }
  // Whatever the seed: tried with 74 of them.
  EXPECT_GE(divided, 1u);
  EXPECT_GT(solved, count / 10);
}

TEST(Oracle, CasesBesideMovesOnProblemsThatAreNotExhausted) {
  const char *text = std::getenv("CLEAVE_TEST_SEED");
  std::mt19937_64 random(text ? std::strtoull(text, nullptr, 10) : 3);
  constexpr unsigned count = 4, mostTries = 60;
  unsigned optimal = 0, feasible = 0;
  for (unsigned i = 0; feasible < count && i < mostTries; ++i) {
    SCOPED_TRACE(testing::Message()
                 << "CLEAVE_TEST_SEED=" << (text ? text : "3") << ", problem " << i);
    Strip strip = makeStrip(random, mostToExhaust + 1, mostToExhaust + 50);
    // Enough that a solution is likely.
    strip.problem.limit = 50 + static_cast<int64_t>(random() % 20);
    std::optional<Cost> optimum = findOptimum(strip);
    strip.problem.mergeEdges();
    SolveOptions options;
    options.moves = 65536;
    options.sweepsToBranch = 0;
    SolveResult result = solve(strip.problem, options), again = solve(strip.problem, options);
    EXPECT_EQ(again.assignment, result.assignment);
    EXPECT_EQ(toString(again.bound.cost), toString(result.bound.cost));
    if (!optimum) {
      EXPECT_FALSE(result.assignment);
      continue;
    }
    ++feasible;
    ASSERT_TRUE(result.assignment);
    EXPECT_TRUE(strip.problem.isFeasible(*result.assignment));
    EXPECT_LE(result.bound.cost, *optimum);
    EXPECT_GE(result.cost, *optimum);
    optimal += result.isOptimal();
  }
  EXPECT_EQ(feasible, count);
  EXPECT_GE(2 * optimal, feasible);
}
