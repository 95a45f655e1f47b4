// A certificate is confirmed only as far as it holds.

#include "lib/solve/Cases.h"
#include "lib/solve/Model.h"
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

TEST(Cases, NeverExceedTheOptimumWhateverTheyAreTold) {
  const char *text = std::getenv("CLEAVE_TEST_SEED");
  std::mt19937_64 random(text ? std::strtoull(text, nullptr, 10) : 1);
  unsigned leftOut = 0, closed = 0;
  for (unsigned i = 0; i < 500; ++i) {
    SCOPED_TRACE(testing::Message()
                 << "CLEAVE_TEST_SEED=" << (text ? text : "1") << ", problem " << i);
    Problem problem = makeTiedProblem(random, 7);
    problem.mergeEdges();
    std::optional<Cost> optimum = findOptimum(problem);
    Model model(problem);
    if (model.isInfeasible())
      continue;
    Dual dual(model.getProblem(), model.getUse());
    for (unsigned sweep = 0; sweep < 1 + i % 8; ++sweep)
      dual.iterate(optimum ? static_cast<double>(*optimum) : 1000);
    Cases cases(problem, model.getCertificate(dual.getBest()));
    ASSERT_TRUE(cases.isValid());
    std::optional<Cost> leastTarget;
    unsigned count = 1;
    for (unsigned step = 0; step < 12; ++step) {
      unsigned number = random() % count;
      Dual::State state = dual.getBest();
      if (random() % 2)
        for (double &message : state.messages)
          message += static_cast<double>(random() % 7) - 3;
      Certificate certificate;
      model.addDual(certificate, state);
      std::optional<Cost> target;
      // About the optimum, as when a solution is known.
      if (random() % 3)
        target = (optimum ? *optimum : Cost(500)) + Cost(random() % 40) - 10;
      ASSERT_TRUE(cases.raise(number, certificate, target));
      if (target)
        leastTarget = leastTarget ? std::min(*leastTarget, *target) : *target;
      if (random() % 2) {
        unsigned node = random() % model.getProblem().getNodes().size();
        std::vector<unsigned> choices;
        for (unsigned choice = 0; choice < model.getProblem().getNodes()[node].size; ++choice) {
          leftOut += !cases.isLeft(number, model.getLeader(node), model.getChoice(node, choice));
          if (random() % 2)
            choices.push_back(model.getChoice(node, choice));
        }
        ASSERT_EQ(cases.split(number, model.getLeader(node), choices), count);
        ++count;
      }
      std::optional<Cost> bound = cases.getBound();
      // Solutions that cost no less than a target may have been left out.
      if (optimum) {
        ASSERT_TRUE(bound);
        ASSERT_LE(*bound, *optimum);
      } else if (!leastTarget) {
        ASSERT_TRUE(!bound || *bound < Cost(1) << 100);
      }
    }
    for (unsigned number = 0; number < count; ++number)
      closed += cases.isClosed(number);
  }
  EXPECT_GT(leftOut, 100u);
  EXPECT_GT(closed, 100u);
}

TEST(Cases, RefuseWhatDoesNotHold) {
  Problem problem = makePair();
  Certificate wrong;
  wrong.removed = {{0, 0}};
  EXPECT_FALSE(Cases(problem, wrong).isValid()) << "a choice that solutions take";
  Certificate certificate;
  certificate.messages.assign(4, 0);
  Cases cases(problem, certificate);
  ASSERT_TRUE(cases.isValid());
  ASSERT_TRUE(cases.raise(0, certificate, std::nullopt));
  EXPECT_EQ(toString(*cases.getBound()), "0");
  certificate.prices = {{3, -one}};
  EXPECT_FALSE(cases.raise(0, certificate, std::nullopt)) << "a negative price";
  EXPECT_EQ(toString(*cases.getBound()), "0");
  // The first node uses little: 6 + p, 9 p or 8 + p, and 1 for the pair. Or it uses much: 9 p, and
  // again.
  certificate.prices = {{3, one}};
  EXPECT_EQ(cases.split(0, 0, {1}), 1u);
  ASSERT_TRUE(cases.raise(0, certificate, std::nullopt));
  ASSERT_TRUE(cases.raise(1, certificate, std::nullopt));
  EXPECT_EQ(toString(cases.getBound(0)), "7");
  EXPECT_EQ(toString(cases.getBound(1)), "8");
  EXPECT_EQ(toString(*cases.getBound()), "7");
}
