// A certificate is confirmed only as far as it holds.

#include "lib/solve/Certificate.h"
#include "test/unit/lib/solve/RandomProblems.h"

#include <gtest/gtest.h>

using namespace cleave::solve;

/// Two nodes that should differ, one of which has no room for its cheap choice.
static Problem makePair() {
  Problem problem;
  problem.limit = 10;
  problem.addNode(0, 4, {0, 6}, {9, 1});
  problem.addNode(2, 6, {0, 8}, {9, 1});
  problem.addEdge(0, 1, problem.addMatrix({2, 2, {0, 1, 1, 5}}));
  problem.mergeEdges();
  return problem;
}

static constexpr Cost one = Cost(1) << Certificate::shift;

TEST(Certificate, WithoutMessagesIsTheSumOfTheLeast) {
  Certificate certificate;
  certificate.messages.assign(4, 0);
  auto bound = check(makePair(), certificate);
  ASSERT_TRUE(bound);
  EXPECT_FALSE(bound->isInfeasible);
  EXPECT_EQ(toString(bound->cost), "0");
}

TEST(Certificate, PricesOfMemoryRaiseTheBound) {
  Certificate certificate;
  certificate.messages.assign(4, 0);
  // 0 + 9 p or 6 + p; 0 + 9 p or 8 + p; less 10 p.
  certificate.prices = {{3, one * 3 / 4}};
  auto bound = check(makePair(), certificate);
  ASSERT_TRUE(bound);
  EXPECT_EQ(toString(bound->cost), "6");
}

TEST(Certificate, BoundsAreRoundedUp) {
  Certificate certificate;
  certificate.messages.assign(4, 0);
  certificate.prices = {{3, one / 100}};
  auto bound = check(makePair(), certificate);
  ASSERT_TRUE(bound);
  EXPECT_EQ(toString(bound->cost), "1");
}

TEST(Certificate, RefusesWhatDoesNotHold) {
  Problem problem = makePair();
  Certificate certificate;
  certificate.messages.assign(3, 0);
  EXPECT_FALSE(check(problem, certificate)) << "too few messages";
  certificate.messages.assign(4, 0);
  certificate.prices = {{3, -one}};
  EXPECT_FALSE(check(problem, certificate)) << "a negative price";
  certificate.prices = {{3, one}, {3, one}};
  EXPECT_FALSE(check(problem, certificate)) << "a time twice";
  certificate.prices.clear();
  certificate.removed = {{0, 0}};
  EXPECT_FALSE(check(problem, certificate)) << "a choice that solutions take";
  certificate.removed = {{2, 0}};
  EXPECT_FALSE(check(problem, certificate)) << "no such node";
  certificate.removed.clear();
  certificate.messages[0] = Cost(1) << 120;
  EXPECT_FALSE(check(problem, certificate)) << "sums that overflow";
}

TEST(Certificate, RemovalsShowInfeasibility) {
  Problem problem;
  problem.limit = 5;
  problem.addNode(0, 2, {1, forbidden}, {3, 0});
  problem.addNode(1, 3, {1}, {3});
  problem.mergeEdges();
  Certificate certificate;
  certificate.removed = {{1, 0}};
  EXPECT_FALSE(check(problem, certificate)) << "fits beside the forbidden choice";
  certificate.removed = {{0, 1}, {1, 0}};
  auto bound = check(problem, certificate);
  ASSERT_TRUE(bound);
  EXPECT_TRUE(bound->isInfeasible);
}

TEST(Certificate, ContractsOnlyEdgesThatLeaveOneChoice) {
  Problem problem;
  problem.limit = 10;
  problem.addNode(0, 4, {0, 6}, {1, 1});
  problem.addNode(0, 4, {7, 0}, {1, 1});
  problem.addNode(0, 4, {0, 0}, {1, 1});
  problem.addEdge(0, 1, problem.addMatrix({2, 2, {0, forbidden, forbidden, 0}}));
  problem.addEdge(1, 2, problem.addMatrix({2, 2, {0, 0, forbidden, 3}}));
  problem.mergeEdges();
  Certificate certificate;
  certificate.messages.assign(8, 0);
  EXPECT_EQ(toString(check(problem, certificate)->cost), "0");
  // The second node's choices are then the first's.
  certificate.contracted = {{0, false}};
  certificate.messages.assign(4, 0);
  auto bound = check(problem, certificate);
  ASSERT_TRUE(bound);
  EXPECT_EQ(toString(bound->cost), "6");
  certificate.contracted = {{0, false}, {0, true}};
  EXPECT_FALSE(check(problem, certificate)) << "the same group";
  certificate.contracted = {{1, false}};
  EXPECT_FALSE(check(problem, certificate)) << "two choices beside the first";
  certificate.contracted = {{2, false}};
  EXPECT_FALSE(check(problem, certificate)) << "no such edge";
  certificate.contracted = {{0, false}};
  certificate.removedFromGroups = {{0, 0, std::nullopt}};
  EXPECT_FALSE(check(problem, certificate)) << "a choice that solutions take";
  certificate.removedFromGroups = {{1, 0, std::nullopt}};
  EXPECT_FALSE(check(problem, certificate)) << "leads no group";
}

TEST(Certificate, CyclesThatDoNotAgreeHaveNoSolution) {
  Problem problem;
  problem.limit = 10;
  for (unsigned node = 0; node < 3; ++node)
    problem.addNode(0, 4, {0, 0}, {1, 1});
  unsigned same = problem.addMatrix({2, 2, {0, forbidden, forbidden, 0}});
  problem.addEdge(0, 1, same);
  problem.addEdge(1, 2, same);
  problem.addEdge(0, 2, problem.addMatrix({2, 2, {forbidden, 0, 0, forbidden}}));
  problem.mergeEdges();
  Certificate certificate;
  certificate.messages.assign(12, 0);
  auto bound = check(problem, certificate);
  ASSERT_TRUE(bound);
  EXPECT_FALSE(bound->isInfeasible) << "no pair by itself shows it";
  // Edges go by pairs of nodes: 0-1, 0-2, 1-2.
  certificate.contracted = {{0, false}, {2, false}};
  certificate.messages.clear();
  bound = check(problem, certificate);
  ASSERT_TRUE(bound);
  EXPECT_TRUE(bound->isInfeasible);
}

TEST(Certificate, RandomMessagesNeverExceedTheOptimum) {
  std::mt19937_64 random(3);
  unsigned checked = 0;
  for (unsigned i = 0; i < 1000; ++i) {
    Problem problem = makeRandomProblem(random, 5);
    problem.mergeEdges();
    std::optional<Cost> optimum = findOptimum(problem);
    Certificate certificate;
    for (const Edge &edge : problem.getEdges())
      for (unsigned n = problem.getNodes()[edge.first].size + problem.getNodes()[edge.second].size;
           n > 0; --n)
        certificate.messages.push_back((static_cast<Cost>(random() % 2001) - 1000)
                                       << (Certificate::shift - 2));
    for (int64_t time = 0; time < 18; ++time)
      if (random() % 3 == 0)
        certificate.prices.push_back({time, Cost(random() % 100) << Certificate::shift});
    // Forbidden choices have to be named, or they would count as costs.
    for (unsigned node = 0; node < problem.getNodes().size(); ++node)
      for (unsigned choice = 0; choice < problem.getNodes()[node].size; ++choice)
        if (problem.getCosts(node)[choice] == forbidden)
          certificate.removed.push_back({node, choice});
    auto bound = check(problem, certificate);
    if (!bound)
      continue;
    if (bound->isInfeasible) {
      ASSERT_FALSE(optimum) << "problem " << i;
    } else if (optimum) {
      ASSERT_LE(bound->cost, *optimum) << "problem " << i;
      ++checked;
    }
    Proof proof = exhaust(problem, certificate, std::nullopt, 1000000, [] { return false; });
    ASSERT_TRUE(proof.isComplete);
    ASSERT_EQ(bool(proof.best), bool(optimum));
    if (optimum) {
      ASSERT_EQ(toString(*problem.getCost(*proof.best)), toString(*optimum)) << "problem " << i;
    }
  }
  EXPECT_GT(checked, 300u);
}
