// What the solver returns is what going through all assignments does, and depends on nothing but
// the problem, the seed and the moves.

#include "lib/solve/Solve.h"
#include "test/unit/lib/solve/RandomProblems.h"

#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

#include <cstdlib>

using namespace cleave::solve;

static uint64_t getSeed() {
  const char *text = std::getenv("CLEAVE_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

static void expectBruteForce(Problem (*make)(std::mt19937_64 &, unsigned), unsigned count) {
  uint64_t seed = getSeed();
  std::mt19937_64 random(seed);
  SolveOptions options;
  options.moves = 4096;
  unsigned infeasible = 0;
  for (unsigned i = 0; i < count; ++i) {
    SCOPED_TRACE(testing::Message() << "CLEAVE_TEST_SEED=" << seed << ", problem " << i);
    Problem raw = make(random, 6);
    std::optional<Cost> optimum = findOptimum(raw);
    Problem problem = raw;
    problem.mergeEdges();
    SolveResult result = solve(problem, options);
    if (!optimum) {
      ++infeasible;
      ASSERT_FALSE(result.assignment);
      ASSERT_TRUE(result.bound.isInfeasible);
      continue;
    }
    ASSERT_TRUE(result.assignment);
    // Of the problem as it was, before edges were merged.
    ASSERT_TRUE(raw.isFeasible(*result.assignment));
    ASSERT_EQ(toString(*raw.getCost(*result.assignment)), toString(*optimum));
    ASSERT_EQ(toString(result.bound.cost), toString(*optimum));
  }
  EXPECT_GT(infeasible, count / 20);
  EXPECT_LT(infeasible, count * 3 / 4);
}

TEST(Solve, EqualsBruteForce) {
  expectBruteForce(makeRandomProblem, 10000);
}
TEST(Solve, EqualsBruteForceWhereNodesFollowOthers) {
  expectBruteForce(makeTiedProblem, 5000);
}

/// Pairs of nodes that have to agree, of which each alone would rather not change.
TEST(Solve, MovesNodesThatFollowEachOtherAtOnce) {
  Problem problem;
  constexpr unsigned length = 300;
  Matrix same{3, 3, {}};
  for (unsigned i = 0; i < 9; ++i)
    same.costs.push_back(i % 4 == 0 ? 0 : forbidden);
  unsigned matrix = problem.addMatrix(std::move(same));
  for (unsigned node = 0; node < length; ++node) {
    // The second choice is the cheapest for all of them together, and for none of them else.
    int64_t own = node % 2 ? 0 : 12;
    problem.addNode(node, node + 2, {own, 5, 12 - own}, {1, 1, 1});
    if (node > 0)
      problem.addEdge(node - 1, node, matrix);
  }
  problem.limit = 2;
  problem.mergeEdges();
  SolveOptions options;
  options.moves = 64;
  SolveResult result = solve(problem, options);
  ASSERT_TRUE(result.assignment);
  EXPECT_EQ(toString(result.cost), "1500");
  EXPECT_TRUE(result.isOptimal());
}

TEST(Solve, IsExactOnLargerProblems) {
  std::mt19937_64 random(getSeed());
  SolveOptions options;
  options.moves = 4096;
  for (unsigned i = 0; i < 20; ++i) {
    Problem raw = makeRandomProblem(random, 10);
    std::optional<Cost> optimum = findOptimum(raw);
    Problem problem = raw;
    problem.mergeEdges();
    SolveResult result = solve(problem, options);
    ASSERT_EQ(bool(optimum), bool(result.assignment)) << "CLEAVE_TEST_SEED=" << getSeed();
    if (optimum) {
      ASSERT_EQ(toString(result.cost), toString(*optimum)) << "CLEAVE_TEST_SEED=" << getSeed();
    }
  }
}

/// A long chain with twigs, more than can be gone through.
static Problem makeChain(unsigned nodes) {
  std::mt19937_64 random(7);
  Problem problem;
  for (unsigned node = 0; node < nodes; ++node) {
    std::vector<int64_t> costs, usages;
    for (unsigned choice = 0; choice < 5; ++choice) {
      costs.push_back(random() % 100);
      usages.push_back(100 - costs.back());
    }
    problem.addNode(node, node + 4, costs, usages);
    if (node > 0) {
      Matrix matrix{5, 5, {}};
      for (unsigned i = 0; i < 25; ++i)
        matrix.costs.push_back(random() % 50);
      unsigned other = node - 1 - random() % std::min(node, 3u);
      problem.addEdge(other, node, problem.addMatrix(std::move(matrix)));
    }
  }
  problem.limit = 220;
  problem.mergeEdges();
  return problem;
}

/// Small problems one after the other in time, more together than can be gone through: each has its
/// own optimum.
TEST(Solve, IsWithinTheGapOfManyProblemsAtOnce) {
  std::mt19937_64 random(getSeed());
  unsigned solved = 0, infeasible = 0, early = 0;
  for (unsigned i = 0; i < 60; ++i) {
    SCOPED_TRACE(testing::Message() << "CLEAVE_TEST_SEED=" << getSeed() << ", problem " << i);
    Problem whole;
    // Below, parts without a solution would leave none to most of the wholes.
    whole.limit = 24 + random() % 40;
    std::optional<Cost> optimum = 0;
    for (int64_t time = 0; whole.getNodes().size() < 250; time += 20) {
      Problem part = makeRandomProblem(random, 6);
      part.limit = whole.limit;
      std::optional<Cost> ofPart = findOptimum(part);
      if (!ofPart && i % 10 != 0)
        continue;
      optimum = optimum && ofPart ? std::optional<Cost>(*optimum + *ofPart) : std::nullopt;
      unsigned first = whole.getNodes().size();
      for (auto [number, node] : llvm::enumerate(part.getNodes()))
        whole.addNode(time + node.start, time + node.end, part.getCosts(number),
                      part.getUsages(number));
      for (const Edge &edge : part.getEdges())
        whole.addEdge(first + edge.first, first + edge.second,
                      whole.addMatrix(part.getMatrices()[edge.matrix]));
    }
    whole.mergeEdges();
    SolveOptions options;
    options.moves = 4096;
    options.gap = 0.01;
    SolveResult result = solve(whole, options);
    ASSERT_EQ(bool(optimum), bool(result.assignment));
    if (!optimum) {
      ++infeasible;
      continue;
    }
    ++solved;
    ASSERT_TRUE(whole.isFeasible(*result.assignment));
    ASSERT_EQ(toString(*whole.getCost(*result.assignment)), toString(result.cost));
    ASSERT_TRUE(result.hasBound);
    ASSERT_LE(result.bound.cost, *optimum);
    ASSERT_GE(result.cost, *optimum);
    // A few are harder than the moves allow.
    early += result.isWithin(0.01);
  }
  EXPECT_GT(solved, 40u);
  EXPECT_GT(infeasible, 0u);
  EXPECT_GT(early, solved * 3 / 4);
}

/// Equal layers, of which only some may take what is cheap and large.
TEST(Solve, SharesMemoryAmongEqualLayers) {
  constexpr unsigned layers = 120, nodesOfLayer = 4;
  Problem problem;
  Matrix same{2, 2, {0, 1000, 1000, 0}}, any{2, 2, {0, 10, 10, 0}};
  unsigned within = problem.addMatrix(same), between = problem.addMatrix(any);
  for (unsigned node = 0; node < layers * nodesOfLayer; ++node) {
    problem.addNode(0, 10, {100, 120}, {50, 30});
    if (node > 0)
      problem.addEdge(node - 1, node, node % nodesOfLayer ? within : between);
  }
  problem.mergeEdges();
  // Room for 40 large layers: cheapest next to each other, at one end.
  problem.limit = 40 * nodesOfLayer * 50 + 80 * nodesOfLayer * 30;
  int64_t optimum = 40 * nodesOfLayer * 100 + 80 * nodesOfLayer * 120 + 10;
  SolveOptions options;
  options.moves = 1024;
  options.gap = 0.01;
  SolveResult result = solve(problem, options);
  ASSERT_TRUE(result.assignment);
  EXPECT_TRUE(problem.isFeasible(*result.assignment));
  EXPECT_LE(result.bound.cost, optimum);
  EXPECT_GE(result.cost, optimum);
  EXPECT_TRUE(result.isWithin(0.01)) << toString(result.cost) << " " << toString(result.bound.cost);
  // A limit that does not bind costs nothing, one that cannot be met is refused.
  problem.limit = layers * nodesOfLayer * 50;
  result = solve(problem, options);
  EXPECT_EQ(toString(result.cost), "48000");
  EXPECT_TRUE(result.isOptimal());
  problem.limit = layers * nodesOfLayer * 30 - 1;
  result = solve(problem, options);
  EXPECT_FALSE(result.assignment);
  EXPECT_TRUE(result.bound.isInfeasible);
}

/// Forward and backward of a program whose first layers are better off in one placement and whose
/// last in the other: nothing is, but in one alone. Messages need a hundred sweeps to agree which.
TEST(Solve, WaitsUntilMessagesAgree) {
  constexpr unsigned layers = 40, programs = 4;
  Problem problem;
  problem.limit = INT64_MAX;
  unsigned same = problem.addMatrix({2, 2, {0, 100'000, 100'000, 0}});
  for (unsigned program = 0; program < programs; ++program) {
    std::vector<unsigned> nodes;
    for (unsigned i = 0; i < 2 * layers; ++i) {
      unsigned layer = i < layers ? i : 2 * layers - 1 - i;
      std::vector<int64_t> costs = {0, 100};
      if (layer >= layers / 2)
        costs = {120, 0};
      nodes.push_back(problem.addNode(0, 0, costs, {0, 0}));
      if (i > 0)
        problem.addEdge(nodes[i - 1], nodes[i], same);
      if (i > layers)
        problem.addEdge(nodes[layer], nodes[i], same);
    }
  }
  problem.mergeEdges();
  SolveOptions options;
  options.moves = 32;
  options.gap = 0.001;
  SolveResult result = solve(problem, options);
  ASSERT_TRUE(result.assignment);
  EXPECT_EQ(toString(result.cost), toString(Cost(programs) * layers * 100));
  EXPECT_TRUE(result.isWithin(0.001)) << toString(result.bound.cost);
}

TEST(Solve, RepeatsBySeedAndMoves) {
  Problem problem = makeChain(400);
  SolveOptions options;
  options.moves = 10240;
  options.gap = 0;
  SolveResult squeezed = solve(problem, options);
  ASSERT_TRUE(squeezed.assignment);
  EXPECT_EQ(*squeezed.assignment, *solve(problem, options).assignment);
  EXPECT_TRUE(problem.isFeasible(*squeezed.assignment));
  options.gap.reset();
  SolveResult first = solve(problem, options), second = solve(problem, options);
  ASSERT_TRUE(first.assignment);
  EXPECT_EQ(*first.assignment, *second.assignment);
  EXPECT_EQ(toString(first.bound.cost), toString(second.bound.cost));
  EXPECT_TRUE(problem.isFeasible(*first.assignment));
  EXPECT_LE(first.bound.cost, first.cost);
  // Memory is tight, and its prices leave a gap.
  EXPECT_GT(first.bound.cost * 100, first.cost * 75);
}

TEST(Solve, StopsWithWhatThereIs) {
  Problem problem = makeChain(400);
  std::atomic<bool> stop = true;
  SolveOptions options;
  options.stop = &stop;
  SolveResult result = solve(problem, options);
  ASSERT_TRUE(result.assignment);
  EXPECT_TRUE(problem.isFeasible(*result.assignment));
  ASSERT_TRUE(result.hasBound);
  EXPECT_LE(result.bound.cost, result.cost);
}

TEST(Solve, KeepsTheTimeLimit) {
  Problem problem = makeChain(400);
  SolveOptions options;
  options.start = Clock::now();
  options.deadline = options.start + std::chrono::milliseconds(300);
  std::optional<Cost> cost, bound;
  options.report = [&](const Progress &progress) {
    // Neither gets worse.
    if (cost && progress.cost) {
      EXPECT_LE(*progress.cost, *cost);
    }
    if (bound && progress.bound) {
      EXPECT_GE(*progress.bound, *bound);
    }
    cost = progress.cost;
    bound = progress.bound;
  };
  SolveResult result = solve(problem, options);
  EXPECT_TRUE(result.assignment);
  // Much later only where the machine is busy.
  EXPECT_LT(Clock::now() - options.start, std::chrono::seconds(5));
}
