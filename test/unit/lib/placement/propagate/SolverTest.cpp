//===- SolverTest.cpp - elimination against brute force --------------------===//

#include "lib/placement/propagate/Solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace cleave::placement::propagate;

namespace {

double bruteForce(const CostProblem &problem) {
  std::vector<unsigned> assignment(problem.getNumVariables(), 0);
  double best = problem.evaluate(assignment);
  while (true) {
    unsigned digit = 0;
    while (digit < assignment.size() && ++assignment[digit] == problem.getNumChoices(digit))
      assignment[digit++] = 0;
    if (digit == assignment.size())
      return best;
    best = std::min(best, problem.evaluate(assignment));
  }
}

/// Tables over neighbours in a chain, and some over any variables.
CostProblem makeProblem(std::mt19937 &random, unsigned variables) {
  CostProblem problem;
  auto draw = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  for (unsigned i = 0; i < variables; ++i)
    problem.addVariable(1 + draw(4));
  for (unsigned i = 0; i < 2 * variables; ++i) {
    std::vector<unsigned> scope = {draw(variables)};
    for (unsigned more = draw(3); more > 0; --more) {
      unsigned other = draw(2) ? (scope[0] + more) % variables : draw(variables);
      if (!std::count(scope.begin(), scope.end(), other))
        scope.push_back(other);
    }
    std::sort(scope.begin(), scope.end());
    size_t size = 1;
    for (unsigned variable : scope)
      size *= problem.getNumChoices(variable);
    std::vector<double> costs(size);
    for (double &cost : costs)
      cost = draw(100);
    problem.addTable(scope, costs);
  }
  return problem;
}

} // namespace

TEST(Solver, FindsWhatBruteForceFinds) {
  std::mt19937 random(20261121);
  for (unsigned round = 0; round < 200; ++round) {
    CostProblem problem = makeProblem(random, 2 + round % 7);
    std::vector<unsigned> initial(problem.getNumVariables(), 0);
    CostProblem::Solution solution = problem.solve(initial);
    EXPECT_TRUE(solution.isOptimal);
    EXPECT_EQ(solution.cost, problem.evaluate(solution.assignment));
    EXPECT_EQ(solution.cost, bruteForce(problem)) << "problem " << round;
  }
}

TEST(Solver, NeverWorseThanWhereItStarts) {
  std::mt19937 random(5);
  unsigned optimal = 0, held = 0;
  for (unsigned round = 0; round < 100; ++round) {
    CostProblem problem = makeProblem(random, 8);
    std::vector<unsigned> initial;
    for (unsigned i = 0; i < 8; ++i)
      initial.push_back(random() % problem.getNumChoices(i));
    CostProblem::Options options;
    options.maxTable = 8;
    CostProblem::Solution solution = problem.solve(initial, options);
    EXPECT_LE(solution.cost, problem.evaluate(initial));
    held += !solution.isOptimal;
    optimal += solution.cost == bruteForce(problem);
  }
  EXPECT_GT(held, 20u);
  // Rounds that hold different variables find the best more often than not.
  EXPECT_GT(optimal, 40u);
}

TEST(Solver, PrefersLowerChoices) {
  CostProblem problem;
  problem.addVariable(3);
  problem.addVariable(2);
  problem.addTable({0, 1}, {1, 1, 1, 1, 1, 1});
  EXPECT_EQ(problem.solve({2, 1}).assignment, (std::vector<unsigned>{0, 0}));
}
