// The cheapest choice at each price is no more than any choice costs, and one of them costs it.
#include "lib/plan/RecomputeCurve.h"

#include "gtest/gtest.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>

using namespace cleave::plan;

namespace {
/// A random forward in which ops take earlier values, some of them with two results.
RecomputeGraph makeGraph(std::mt19937 &random, unsigned numOps) {
  auto draw = [&](unsigned most) { return unsigned(random() % (most + 1)); };
  RecomputeGraph graph;
  for (unsigned number = 0; number < numOps; ++number) {
    RecomputeGraph::Op &op = graph.ops.emplace_back();
    op.seconds = draw(3) * 1e-3;
    op.sent = draw(3) * 1e-3;
    for (unsigned operand = 0; operand < graph.values.size(); ++operand)
      if (draw(2) == 0)
        op.operands.push_back(operand);
    for (unsigned result = 0; result <= unsigned(draw(3) == 0); ++result)
      graph.values.push_back(
          {double(draw(5)) * 1e6, draw(5) == 0 ? RecomputeGraph::none : number, draw(1) == 0});
  }
  return graph;
}

/// The cost of one choice: what is in `saved` is saved where the backward has need of it.
double costOf(const RecomputeGraph &graph, unsigned saved, double price, RecomputeWeights weights) {
  std::vector<char> isThere(graph.values.size()), isRun(graph.ops.size());
  double cost = 0;
  auto need = [&](auto &self, unsigned value) -> void {
    if (std::exchange(isThere[value], 1))
      return;
    const RecomputeGraph::Value &of = graph.values[value];
    if (of.op == RecomputeGraph::none || saved >> value & 1) {
      cost += price * of.bytes;
      return;
    }
    if (std::exchange(isRun[of.op], 1))
      return;
    cost += weights.kernels * graph.ops[of.op].seconds + weights.sent * graph.ops[of.op].sent;
    for (unsigned operand : graph.ops[of.op].operands)
      self(self, operand);
  };
  for (unsigned value = 0; value < graph.values.size(); ++value)
    if (graph.values[value].isNeeded)
      need(need, value);
  return cost;
}

double findLeast(const RecomputeGraph &graph, double price, RecomputeWeights weights) {
  double least = std::numeric_limits<double>::infinity();
  for (unsigned saved = 0; saved < 1u << graph.values.size(); ++saved)
    least = std::min(least, costOf(graph, saved, price, weights));
  return least;
}

TEST(RecomputeCurve, IsTheCheapestOfAllChoices) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (unsigned run = 0; run < 300; ++run) {
    RecomputeGraph graph = makeGraph(random, 1 + unsigned(random() % 6));
    const RecomputeWeights weights =
        std::array<RecomputeWeights, 3>{{{1, 0}, {1, 0.2}, {0.2, 1}}}[run % 3];
    RecomputeCurve curve(graph, weights);
    for (double price = 1e-13; price < 1e-5; price *= 3) {
      const double least = findLeast(graph, price, weights), found = curve.at(price);
      EXPECT_LE(found, least * (1 + 1e-9) + 1e-15);
      // Between two prices that were looked at a chord lies below the curve.
      EXPECT_GE(found, 0.8 * least - 1e-15);
    }
    EXPECT_NEAR(curve.getLeastBytes(), findLeast(graph, 1e9, weights) / 1e9, 1);
  }
}

TEST(RecomputeCurve, IsConcave) {
  std::mt19937 random(7);
  for (unsigned run = 0; run < 100; ++run) {
    RecomputeCurve curve(makeGraph(random, 8));
    for (double price = 1e-13; price < 1e-5; price *= 1.7) {
      const double next = 2.3 * price, middle = (price + next) / 2;
      EXPECT_GE(curve.at(middle) * (1 + 1e-9) + 1e-15, (curve.at(price) + curve.at(next)) / 2);
    }
  }
}

TEST(RecomputeCurve, TheLeastOfSomeIsNoMoreThanAnyOfThem) {
  std::mt19937 random(11);
  for (unsigned run = 0; run < 100; ++run) {
    RecomputeCurve a(makeGraph(random, 5)), b(makeGraph(random, 7));
    RecomputeCurve least = RecomputeCurve::leastOf({&a, &b});
    for (double price = 1e-13; price < 1e-5; price *= 1.7) {
      EXPECT_LE(least.at(price), std::min(a.at(price), b.at(price)) * (1 + 1e-9) + 1e-15);
      EXPECT_GE(least.at(price), 0.8 * std::min(a.at(price), b.at(price)) - 1e-15);
    }
  }
}

TEST(RecomputeCurve, NothingNeededCostsNothing) {
  EXPECT_EQ(RecomputeCurve().at(1), 0);
  RecomputeGraph graph;
  graph.ops.push_back({1, {}});
  graph.values.push_back({8, 0, false});
  EXPECT_EQ(RecomputeCurve(graph).at(1e-3), 0);
  EXPECT_EQ(RecomputeCurve(graph).getLeastBytes(), 0);
}
} // namespace
