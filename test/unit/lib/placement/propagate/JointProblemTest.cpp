//===- JointProblemTest.cpp - small programs against all their placements ----===//
//
// Random graphs of linear layers, sums and products with random annotations, on one axis and on
// two: what is chosen costs as little as any combination of choices, whose costs are added up here
// by themselves: work, and for each value the cheapest form that all of its uses go on from.
//
//===----------------------------------------------------------------------===//

#include "lib/placement/propagate/JointProblem.h"
#include "dialects/Register.h"
#include "lib/placement/propagate/Propagate.h"

#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

#include <random>

using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;

namespace {

std::string makeProgram(std::mt19937 &random, bool hasTwoAxes, unsigned ops) {
  auto draw = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  auto annotate = [&]() -> std::string {
    const char *entries[] = {"S(0)", "S(1)", "R"};
    std::string text = "x = " + std::string(entries[draw(3)]);
    if (hasTwoAxes && draw(2))
      text += ", y = R";
    return draw(3) ? " {dist.placement = #dist.on<@mesh, " + text + ">}" : "";
  };
  std::string mesh = hasTwoAxes ? "[\"x\" = 2, \"y\" = 2]" : "[\"x\" = 2]";
  std::string text = "dist.mesh @mesh " + mesh + "\nfunc.func @f(";
  const std::string type = "tensor<8x8xf32>";
  for (unsigned i = 0; i < 2; ++i)
    text += (i ? ", %v" : "%v") + std::to_string(i) + ": " + type + annotate();
  text += ") -> (" + type + annotate() + ") {\n";
  unsigned values = 2;
  for (unsigned i = 0; i < ops; ++i) {
    auto value = [&] { return "%v" + std::to_string(draw(2) ? values - 1 : draw(values)); };
    text += "  %v" + std::to_string(values) + " = ";
    std::string two = "(" + value() + ", " + value() + ") : (" + type + ", " + type + ") -> ";
    const char *names[] = {"aten.add", "aten.mm", "aten.mul"};
    text += names[draw(3)] + two + type + "\n";
    ++values;
  }
  return text + "  return %v" + std::to_string(values - 1) + " : " + type + "\n}\n";
}

/// Costs of a program's choices, added up without the solver's problem.
class Sum {
public:
  Sum(const Graph &graph, llvm::ArrayRef<MeshAxis> axes, const JointChoices &choices,
      JointCosts &costs)
      : graph(graph), choices(choices) {
    for (unsigned op = 0; op < graph.ops.size(); ++op) {
      auto &byChoice = work.emplace_back();
      for (unsigned choice = 0; choice < choices.getNumChoices(op); ++choice) {
        llvm::SmallVector<const AxisStrategy *, 2> strategies;
        for (unsigned axis = 0; axis < axes.size(); ++axis)
          strategies.push_back(&choices.getStrategy(op, choice, axis));
        byChoice.push_back(costs.work(graph.ops[op].op, strategies));
      }
    }
    // All tensors have one type.
    for (unsigned list = 0; list < choices.lists.size(); ++list)
      for (unsigned placement : choices.lists[list])
        count = std::max(count, placement + 1);
    for (unsigned from = 0; from < count; ++from)
      for (unsigned to = 0; to < count; ++to)
        moves.push_back(costs
                            .redistribute(graph.values[0].type(), choices.getPlacement(from),
                                          choices.getPlacement(to))
                            .value_or(1e9));
  }

  double of(llvm::ArrayRef<unsigned> assignment) const {
    double seconds = 0;
    for (unsigned op = 0; op < graph.ops.size(); ++op)
      seconds += work[op][assignment[op]];
    for (auto [number, value] : llvm::enumerate(graph.values)) {
      unsigned made = choices.lists[choices.made[number]][assignment[choices.producerOf(value)]];
      auto sumFrom = [&](unsigned form) {
        double sum = moves[made * count + form];
        for (unsigned use : value.uses) {
          unsigned user = assignment[choices.userOf(graph.uses[use])];
          sum += moves[form * count + choices.lists[choices.taken[use]][user]];
        }
        return sum;
      };
      double least = sumFrom(made);
      if (value.uses.size() > 1)
        for (unsigned form = 0; form < count; ++form)
          least = std::min(least, sumFrom(form));
      seconds += value.weight * least;
    }
    return seconds;
  }

private:
  const Graph &graph;
  const JointChoices &choices;
  std::vector<std::vector<double>> work;
  unsigned count = 0;
  std::vector<double> moves;
};

class JointProblems : public testing::Test {
protected:
  JointProblems() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  /// Returns whether there were few enough choices to compare with.
  bool compare(const std::string &text) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    PropagateOptions options;
    options.solve.emplace().moves = 2000;
    options.machine.microbatches = 1;
    options.machine.work = 2;
    auto found = propagate::propagate(*module, options);
    EXPECT_TRUE(mlir::succeeded(found)) << text;
    auto choices = JointChoices::collect(*found->graph, found->axes);
    size_t combinations = 1;
    for (unsigned i = 0; i < choices->getNumVariables(); ++i)
      combinations = std::min<size_t>(combinations * choices->getNumChoices(i), 1e9);
    if (combinations > 100000)
      return false;
    JointCosts costs(found->axes, options.machine);
    Sum sum(*found->graph, found->axes, *choices, costs);
    std::vector<unsigned> assignment(choices->getNumVariables());
    double lowest = 1e9;
    for (size_t number = 0; number < combinations; ++number) {
      size_t rest = number;
      for (unsigned i = 0; i < assignment.size(); ++i) {
        assignment[i] = rest % choices->getNumChoices(i);
        rest /= choices->getNumChoices(i);
      }
      lowest = std::min(lowest, sum.of(assignment));
    }
    // Costs are whole numbers of 1e-12 s to the solver.
    EXPECT_NEAR(found->report->cost, lowest, 2e-11) << text;
    EXPECT_LE(found->report->bound, lowest + 2e-11) << text;
    EXPECT_GE(found->report->bound, lowest - 2e-11) << text;
    return true;
  }
  mlir::MLIRContext context;
};

} // namespace

TEST_F(JointProblems, NothingIsCheaperThanWhatIsChosen) {
  std::mt19937 random(20261123);
  unsigned compared[2] = {0, 0};
  for (unsigned round = 0; round < 400; ++round) {
    bool hasTwoAxes = round % 2;
    compared[hasTwoAxes] +=
        compare(makeProgram(random, hasTwoAxes, hasTwoAxes ? 1 + round % 3 / 2 : 1 + round % 4));
  }
  EXPECT_GT(compared[0], 60u);
  EXPECT_GT(compared[1], 40u);
}

/// The orders of axes that shard one dimension are choices: what is annotated stays.
TEST_F(JointProblems, OrdersAreChosen) {
  const char *text = "dist.mesh @mesh [\"x\" = 2, \"y\" = 2]\n"
                     "func.func @f(%x: tensor<8x8xf32> {dist.placement = #dist.on<@mesh, x = S(0, "
                     "1), y = S(0, 0)>})"
                     " -> tensor<8x8xf32> {\n"
                     "  %0 = aten.relu(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>\n"
                     "  return %0 : tensor<8x8xf32>\n}\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  PropagateOptions options;
  options.solve.emplace();
  auto found = propagate::propagate(*module, options);
  ASSERT_TRUE(mlir::succeeded(found));
  for (dist::PlacementAttr made : found->made)
    EXPECT_EQ(made, found->made.front());
  EXPECT_EQ(found->made.front().get("x")->order, 1);
}
