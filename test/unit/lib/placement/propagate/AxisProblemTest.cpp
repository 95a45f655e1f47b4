//===- AxisProblemTest.cpp - small programs against all their placements -----===//
//
// Random graphs of linear layers, sums and products with random annotations: what is chosen costs
// as little as any of all combinations of strategies.
//
//===----------------------------------------------------------------------===//

#include "dialects/Register.h"
#include "lib/placement/propagate/Propagate.h"

#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

#include <random>

using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;

namespace {

std::string makeProgram(std::mt19937 &random, unsigned ops) {
  auto draw = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  const char *annotations[] = {"", "", " {dist.placement = #dist.on<@mesh, x = S(0)>}",
                               " {dist.placement = #dist.on<@mesh, x = S(1)>}",
                               " {dist.placement = #dist.on<@mesh, x = R>}"};
  std::string text = "dist.mesh @mesh [\"x\" = 2]\nfunc.func @f(";
  for (unsigned i = 0; i < 3; ++i)
    text += (i ? ", %v" : "%v") + std::to_string(i) + ": tensor<8x8xf32>" + annotations[draw(5)];
  text += ") -> (tensor<8x8xf32>" + std::string(annotations[draw(5)]) + ") {\n";
  unsigned values = 3;
  for (unsigned i = 0; i < ops; ++i) {
    auto value = [&] {
      return "%v" + std::to_string(draw(3) ? values - 1 - draw(2) : draw(values));
    };
    const std::string type = "tensor<8x8xf32>";
    std::string result = "  %v" + std::to_string(values) + " = ";
    std::string two = "(" + value() + ", " + value() + ") : (" + type + ", " + type + ") -> ";
    std::string one = "(" + value() + ") : (" + type + ") -> ";
    switch (draw(5)) {
    case 0:
      text += result + "aten.add" + two + type + "\n";
      break;
    case 1:
      text += result + "aten.relu" + one + type + "\n";
      break;
    case 2:
      text += result + "aten.t" + one + type + "\n";
      break;
    default:
      text += result + "aten.mm" + two + type + "\n";
      break;
    }
    ++values;
  }
  return text + "  return %v" + std::to_string(values - 1) + " : tensor<8x8xf32>\n}\n";
}

class AxisProblems : public testing::Test {
protected:
  AxisProblems() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }
  mlir::MLIRContext context;
};

} // namespace

TEST_F(AxisProblems, NothingIsCheaperThanWhatIsChosen) {
  std::mt19937 random(20261121);
  unsigned compared = 0, moved = 0;
  for (unsigned round = 0; round < 150; ++round) {
    std::string text = makeProgram(random, 2 + round % 5);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    auto propagation = propagate::propagate(*module, PropagateOptions());
    ASSERT_TRUE(mlir::succeeded(propagation)) << text;
    const AxisProblem &chosen = *propagation->records[0].problem;
    const CostProblem &problem = chosen.getProblem();
    std::vector<unsigned> best, assignment(problem.getNumVariables(), 0);
    for (unsigned i = 0; i < assignment.size(); ++i)
      best.push_back(i < propagation->graph->ops.size()
                         ? chosen.getChoice(i)
                         : chosen.getGroupChoice(i - propagation->graph->ops.size()));
    double cost = problem.evaluate(best), lowest = problem.evaluate(assignment);
    size_t combinations = 1;
    for (unsigned i = 0; i < assignment.size(); ++i)
      combinations *= problem.getNumChoices(i);
    if (combinations > 200000)
      continue;
    for (size_t number = 0; number < combinations; ++number) {
      size_t rest = number;
      for (unsigned i = 0; i < assignment.size(); ++i) {
        assignment[i] = rest % problem.getNumChoices(i);
        rest /= problem.getNumChoices(i);
      }
      lowest = std::min(lowest, problem.evaluate(assignment));
    }
    EXPECT_LE(cost, lowest * (1 + 1e-12)) << text;
    ++compared;
    for (unsigned use = 0; use < propagation->graph->uses.size(); ++use)
      moved += propagation->taken[use] != propagation->made[propagation->graph->uses[use].value];
  }
  EXPECT_GT(compared, 100u);
  EXPECT_GT(moved, 50u);
}

/// As many uses as have more joint choices than a number holds: as rotary tables of deep models.
TEST_F(AxisProblems, AValueOfManyUses) {
  std::string text =
      "dist.mesh @mesh [\"x\" = 2]\n"
      "func.func @f(%x: tensor<8x8xf32> {dist.placement = #dist.on<@mesh, x = S(0)>},"
      " %v0: tensor<8x8xf32> {dist.placement = #dist.on<@mesh, x = S(0)>})"
      " -> tensor<8x8xf32> {\n";
  constexpr unsigned kUses = 160;
  for (unsigned i = 0; i < kUses; ++i)
    text += "  %v" + std::to_string(i + 1) + " = aten.mul(%v" + std::to_string(i) +
            ", %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>\n";
  text += "  return %v" + std::to_string(kUses) + " : tensor<8x8xf32>\n}\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  auto propagation = propagate::propagate(*module, PropagateOptions());
  ASSERT_TRUE(mlir::succeeded(propagation));
  for (const AxisStrategy &strategy : propagation->solutions[0].strategies)
    EXPECT_EQ(strategy.results[0], dist::AxisPlacement::shard(0));
}
