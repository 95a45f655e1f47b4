// The smooth dual reaches the best bound that messages and prices can prove, also where sweeps and
// subgradients stop below it.

#include "lib/solve/SmoothDual.h"
#include "lib/solve/Dual.h"
#include "lib/solve/Model.h"
#include "test/unit/lib/solve/RandomProblems.h"

#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

#include <cstdlib>

using namespace cleave::solve;

static uint64_t getSeed() {
  const char *text = std::getenv("CLEAVE_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

/// Goes on from the dual's best state until the temperature is low; returns the dual's best state
/// then.
static Dual::State raise(Dual &dual, const Problem &problem, const MemoryUse &memory, double gap) {
  SmoothDual smooth(problem, memory, dual.getPairCosts(),
                    {dual.getBest().messages, dual.getBest().prices}, gap);
  for (unsigned i = 0; i < 5000 && !smooth.isCold(); ++i)
    smooth.iterate();
  EXPECT_TRUE(smooth.isCold());
  EXPECT_TRUE(smooth.isCool());
  dual.start(smooth.getPoint().messages, smooth.getPoint().prices);
  dual.settle(0, 30);
  return dual.getBest();
}

/// Nodes whose first choice uses memory and whose second costs something: a knapsack, of which the
/// best bound is known.
TEST(SmoothDual, FindsThePriceOfAKnapsack) {
  std::mt19937_64 random(getSeed());
  SCOPED_TRACE(testing::Message() << "CLEAVE_TEST_SEED=" << getSeed());
  for (unsigned count : {1, 2, 7, 50, 400}) {
    Problem problem;
    std::vector<std::pair<double, int64_t>> items;
    int64_t all = 0;
    for (unsigned i = 0; i < count; ++i) {
      auto cost = static_cast<int64_t>(1 + random() % 1000);
      auto usage = static_cast<int64_t>(1 + random() % 1000);
      problem.addNode(0, 1, {0, cost}, {usage, 0});
      items.push_back({static_cast<double>(cost) / static_cast<double>(usage), usage});
      all += usage;
    }
    problem.limit = all / 2;
    llvm::sort(items);
    double bound = 0;
    int64_t excess = all - problem.limit;
    for (auto [cost, usage] : items) {
      int64_t part = std::min(usage, excess);
      bound += cost * static_cast<double>(part);
      excess -= part;
    }
    LiveRanges live(problem);
    MemoryUse use(live.times.size());
    for (unsigned node = 0; node < count; ++node)
      use.addNode(2, MemoryUse::Part{live.ranges[node], problem.getUsages(node).vec()});
    Dual dual(problem, use);
    dual.iterate(std::numeric_limits<double>::infinity());
    double reached = raise(dual, problem, use, std::max(bound, 1.0)).bound;
    EXPECT_LE(reached, bound * (1 + 1e-9)) << count << " nodes";
    EXPECT_GE(reached, bound * (1 - 1e-3)) << count << " nodes";
  }
}

/// Problems in which every node has edges to many others, so that sweeps end early.
TEST(SmoothDual, GoesOnWhereSweepsStop) {
  std::mt19937_64 random(getSeed());
  SCOPED_TRACE(testing::Message() << "CLEAVE_TEST_SEED=" << getSeed());
  unsigned better = 0;
  double sum = 0;
  constexpr unsigned problems = 30, nodes = 24, choices = 4;
  for (unsigned i = 0; i < problems; ++i) {
    Problem problem;
    for (unsigned node = 0; node < nodes; ++node) {
      std::vector<int64_t> costs, usages;
      for (unsigned choice = 0; choice < choices; ++choice) {
        costs.push_back(random() % 1000);
        usages.push_back(random() % 100);
      }
      problem.addNode(node, node + 8, costs, usages);
    }
    for (unsigned edge = 0; edge < 3 * nodes; ++edge) {
      unsigned first = random() % nodes, second = random() % nodes;
      if (first == second)
        continue;
      Matrix matrix{choices, choices, {}};
      for (unsigned entry = 0; entry < choices * choices; ++entry)
        matrix.costs.push_back(random() % 1000);
      problem.addEdge(first, second, problem.addMatrix(std::move(matrix)));
    }
    problem.limit = 8 * 40;
    problem.mergeEdges();
    Model model(problem);
    if (model.isInfeasible())
      continue;
    Dual dual(model.getProblem(), model.getUse());
    while (!dual.isStalled())
      dual.iterate(std::numeric_limits<double>::infinity());
    double before = dual.getBest().bound;
    Dual::State state = raise(dual, model.getProblem(), model.getUse(), 0.1 * before);
    EXPECT_GE(state.bound, before * (1 - 1e-3)) << "problem " << i;
    better += state.bound > before * (1 + 1e-4);
    sum += state.bound / before;
    // What was computed in doubles holds in exact integers.
    std::optional<Bound> bound = check(problem, model.getCertificate(state));
    ASSERT_TRUE(bound);
    EXPECT_NEAR(static_cast<double>(bound->cost), state.bound, 1.001);
  }
  RecordProperty("raised", std::to_string(sum / problems));
  EXPECT_GE(better, problems * 2 / 3);
}

/// Whatever the problem is like, what comes out proves a bound that is none too high.
TEST(SmoothDual, NeverExceedsTheOptimum) {
  std::mt19937_64 random(getSeed());
  unsigned checked = 0;
  for (unsigned i = 0; i < 300; ++i) {
    SCOPED_TRACE(testing::Message() << "CLEAVE_TEST_SEED=" << getSeed() << ", problem " << i);
    Problem problem = i % 2 ? makeRandomProblem(random, 6) : makeTiedProblem(random, 6);
    std::optional<Cost> optimum = findOptimum(problem);
    problem.mergeEdges();
    Model model(problem);
    if (!optimum || model.isInfeasible())
      continue;
    Dual dual(model.getProblem(), model.getUse());
    dual.iterate(std::numeric_limits<double>::infinity());
    SmoothDual smooth(model.getProblem(), model.getUse(), dual.getPairCosts(),
                      {dual.getBest().messages, dual.getBest().prices}, 100);
    for (unsigned j = 0; j < 40; ++j)
      smooth.iterate();
    std::optional<Bound> bound = check(
        problem, model.getCertificate({smooth.getPoint().messages, smooth.getPoint().prices}));
    ASSERT_TRUE(bound);
    EXPECT_FALSE(bound->isInfeasible);
    EXPECT_LE(bound->cost, *optimum);
    ++checked;
  }
  EXPECT_GT(checked, 100u);
}
