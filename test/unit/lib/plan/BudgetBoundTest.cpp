// Whatever stages recompute, no schedule in the memory that it takes is faster than the bound.
#include "lib/plan/BudgetBound.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/model/Transforms.h"
#include "lib/schedule/simulate/Metrics.h"
#include "lib/schedule/simulate/Simulator.h"
#include "lib/schedule/simulate/Step.h"

#include "gtest/gtest.h"

#include <cmath>
#include <numeric>
#include <random>

using namespace cleave;
using namespace cleave::plan;

namespace {
constexpr int64_t layers = 17;
constexpr unsigned numValues = 6;

/// Kernels take so much longer beside communications.
constexpr double slowdown = 0.2;

/// What a layer may save: a value of some bytes, or the time of its op, of kernels and of
/// communications, each by itself.
struct Layer {
  double seconds[numValues], sent[numValues], bytes[numValues];

  RecomputeGraph getGraph() const {
    RecomputeGraph graph;
    for (unsigned value = 0; value < numValues; ++value) {
      graph.ops.push_back({seconds[value], sent[value], {}});
      graph.values.push_back({bytes[value], value, true});
    }
    return graph;
  }
};

struct Choice {
  double seconds = 0, sent = 0, bytes = 0, offloaded = 0;

  Choice &operator+=(const Choice &other) {
    seconds += other.seconds;
    sent += other.sent;
    bytes += other.bytes;
    offloaded += other.offloaded;
    return *this;
  }
};

/// At this price of a byte the cheapest, but for some values by chance. Of what is not recomputed,
/// so many quarters are offloaded.
Choice choose(const Layer &layer, double price, unsigned offloaded, std::mt19937 &random) {
  Choice choice;
  for (unsigned value = 0; value < numValues; ++value) {
    bool isSaved = price * layer.bytes[value] < layer.seconds[value] + slowdown * layer.sent[value];
    if (random() % 16 == 0)
      isSaved = !isSaved;
    if (isSaved && random() % 4 < offloaded) {
      choice.offloaded += layer.bytes[value];
      continue;
    }
    if (isSaved)
      choice.bytes += layer.bytes[value];
    else
      choice += {layer.seconds[value], layer.sent[value]};
  }
  return choice;
}

class BudgetBoundTest : public ::testing::Test {
protected:
  double draw(double most) { return most * double(random() % 1000) / 1000; }

  void SetUp() override {
    cluster.device.stepSeconds = 0.25;
    cluster.device.overlapSlowdown = slowdown;
    cluster.device.hostBandwidth = 250;
    cluster.device.hostEfficiency = 0.8;
    for (int64_t number = 0; number < layers; ++number) {
      Layer &layer = kinds.emplace_back();
      for (unsigned value = 0; value < numValues; ++value) {
        layer.seconds[value] = 0.01 + draw(0.2);
        layer.sent[value] = value % 2 ? draw(1) : 0;
        layer.bytes[value] = 1 + draw(9);
      }
      for (auto [list, weights] : {std::pair(&curves.layers, RecomputeWeights{1, slowdown}),
                                   {&curves.streams, RecomputeWeights{slowdown, 1}}})
        list->push_back(std::make_shared<const RecomputeCurve>(layer.getGraph(), weights));
      times.forward.push_back({{0.1 + draw(1), draw(0.5)}, 0, 0});
      times.backward.push_back({{0.1 + draw(2), draw(0.5)}, draw(0.3), draw(0.3)});
      times.either.push_back({});
    }
  }

  /// Stages that recompute by a price each, and those that recompute nothing, with what halves of a
  /// backward hold for each other, with what is there while they run, and with what runs once per
  /// step. Kernels and communications of a backward run side by side, and copies to and from
  /// the host beside both.
  void makeStages(const Space &space, const Shape &shape, double price, unsigned offloaded = 0) {
    std::vector<int64_t> ends = space.listCuts(shape);
    ends.push_back(layers);
    Shape any = shape;
    any.recompute = Recompute::Budget;
    costs.stages.clear();
    hosted.stages.clear();
    table = {};
    table.costs.stages.clear();
    int64_t begin = 0;
    for (auto [end, stage] : llvm::zip_equal(ends, sumStages(space, any, times))) {
      simulate::StageCost cost = stage.getCost(shape.splitsBackward);
      for (double *seconds : {&cost.forward, &cost.input, &cost.weight})
        *seconds *= 1e3;
      if (!shape.splitsBackward)
        cost.backward *= 1e3;
      // The first stage has no gradient of an input.
      const bool isWhole = shape.splitsBackward && begin == 0;
      if (isWhole)
        cost.weight += std::exchange(cost.input, 0);
      cost.unshard = gathers ? draw(500) : 0;
      cost.reduce = draw(300);
      cost.optimizer = draw(500);
      table.costs.stages.push_back(cost);
      const double whole = cost.fullBackward(), stream = whole * (1 - draw(hasStream ? 0.1 : 1));
      table.kernels.push_back({1e-3 * whole * (1 - draw(0.3)), 0, 1e-3 * stream});
      Choice sum;
      const double own = price * std::exp2(draw(4) - 2);
      for (; begin < end; ++begin)
        sum += choose(kinds[size_t(begin)], own, offloaded, random);
      double &backward =
          shape.splitsBackward ? random() % 2 ? cost.input : cost.weight : cost.backward;
      const double copies = 1e3 * cost::timeOfHostCopy(cluster.device, sum.offloaded);
      cost.forward = std::max(cost.forward, copies);
      backward += std::max({whole + 1e3 * (sum.seconds + slowdown * sum.sent),
                            stream + 1e3 * (slowdown * sum.seconds + sum.sent), copies}) -
                  whole;
      cost.forwardMemory = sum.bytes;
      // What the weights need is held until then, and gradients that the first half makes.
      table.heldGradients.push_back(shape.splitsBackward && !isWhole ? draw(40) : 0);
      cost.weightMemory = !shape.splitsBackward ? 0
                          : isWhole             ? sum.bytes
                                                : draw(1) * sum.bytes + table.heldGradients.back();
      cost.inputMemory = sum.bytes - cost.weightMemory;
      costs.stages.push_back(cost);
      const double forWeights = isWhole ? sum.offloaded : 0;
      hosted.stages.push_back({0, 0, 0, -1});
      hosted.stages.back().forwardMemory = sum.offloaded;
      hosted.stages.back().weightMemory = forWeights;
      hosted.stages.back().inputMemory = sum.offloaded - forWeights;
      table.held.push_back(draw(3));
      table.temporary.push_back(draw(5));
      table.gathered.push_back(gathers ? draw(5) : 0);
    }
  }

  /// Seconds, and the bytes of the rank that needs most.
  std::pair<double, double> run(const Space &space, const Plan &plan) {
    schedule::Schedule order =
        llvm::cantFail(orderPasses(plan, space, unsigned(costs.stages.size())));
    double once = 0;
    if (order.numRanks() > 1) {
      if (gathers)
        llvm::cantFail(schedule::addUnshards(order));
      schedule::addGradientReductions(order, std::vector<unsigned>(costs.stages.size(), 1));
      schedule::addOptimizerSteps(order);
      order = llvm::cantFail(schedule::insertP2P(order));
    } else {
      for (const simulate::StageCost &stage : costs.stages)
        once += 1e-3 * (stage.unshard + stage.reduce + stage.optimizer);
    }
    simulate::SimulationOptions options;
    options.model = schedule::CommModel::gloo();
    auto timeline = llvm::cantFail(simulate::simulate(order, costs, options));
    double most = 0;
    hostBytes = 0;
    for (unsigned rank = 0; rank < order.numRanks(); ++rank) {
      double peak = 0, temporary = 0, onHost = 0;
      simulate::memoryCurve(order, costs, rank, &peak);
      simulate::memoryCurve(order, hosted, rank, &onHost);
      hostBytes = std::max(hostBytes, onHost);
      for (unsigned stage : order.topology.stagesOf(rank)) {
        peak += table.held[stage];
        temporary = std::max(temporary, table.temporary[stage]);
      }
      peak += temporary + simulate::measureGathered(order, rank, table.gathered);
      most = std::max(most, peak);
    }
    return {0.25 + once + 1e-3 * simulate::measure(order, timeline).makespan, most};
  }

  std::mt19937 random{20261129};
  /// Of the rank that needs most, in the last run.
  double hostBytes = 0;
  /// Whether parameters are gathered once per step, and whether communications take nearly as long
  /// as backwards that recompute nothing.
  bool gathers = false, hasStream = false;
  cost::Cluster cluster;
  std::vector<Layer> kinds;
  LayerTimes times;
  LayerCurves curves;
  simulate::CostTable costs;
  simulate::CostTable hosted; ///< the memory of the host
  StageTable table;
};

Space makeSpace(int64_t ranks) {
  Space space;
  space.ranks = ranks;
  space.programs.emplace_back();
  space.programs[0].layers = layers;
  space.programs[0].microbatches = 8;
  return space;
}

TEST_F(BudgetBoundTest, NoChoiceIsFaster) {
  unsigned numTried = 0, numRaised = 0, numTighter = 0, numSent = 0;
  double closest = 2, closestSent = 2;
  for (double price : {1e-4, 3e-3, 1e-2, 3e-2, 0.1, 10.0})
    for (int64_t ranks : {1, 2, 4}) {
      const Space space = makeSpace(ranks);
      Layout layout;
      layout.pipeline = ranks;
      for (const Shape &shape : space.listShapes(layout)) {
        BudgetBound bound(space, cluster, shape, times, curves);
        BudgetBound ofKernels(space, cluster, shape, times, {curves.layers, {}, 0});
        const double anyMemory = bound.boundAll(1e9);
        for (const std::string &name : space.listSchedules(shape)) {
          gathers = numTried % 2;
          hasStream = numTried % 3 == 0;
          makeStages(space, shape, price);
          auto [seconds, bytes] = run(space, {shape, name});
          double held = std::accumulate(table.held.begin(), table.held.end(), 0.0);
          const double all = bound.boundAll(bytes * double(ranks) - held);
          const double one = bound.boundSchedule(name, table, bytes);
          EXPECT_GE(seconds, all) << name << ", " << ranks << " ranks, price " << price;
          EXPECT_GE(seconds, one) << name << ", " << ranks << " ranks, price " << price;
          EXPECT_GE(all, anyMemory);
          // The less memory there is, the higher they are.
          EXPECT_GE(bound.boundSchedule(name, table, bytes * 0.8), one);
          numTighter += bound.boundSchedule(name, table, bytes / 2) > one;
          closest = std::min(closest, seconds / one);
          if (one > ofKernels.boundSchedule(name, table, bytes) * 1.001) {
            closestSent = std::min(closestSent, seconds / one);
            ++numSent;
          }
          numRaised += all > anyMemory * 1.01;
          ++numTried;
        }
      }
    }
  EXPECT_GT(numTried, 200u);
  EXPECT_GT(numRaised, 50u);
  EXPECT_GT(numTighter, numTried * 9 / 10);
  EXPECT_LT(closest, 1.01) << "the bound is met by none";
  // Where a stream of communications takes longer than kernels.
  EXPECT_GT(numSent, 20u);
  EXPECT_LT(closestSent, 1.05);
}

TEST_F(BudgetBoundTest, NoChoiceThatOffloadsIsFaster) {
  unsigned numTried = 0, numRaised = 0, numBelow = 0, numHosted = 0;
  double closest = 2, closestRaised = 2;
  for (double bandwidth : {5.0, 30.0, 60.0, 500.0, 50000.0})
    for (double price : {1e-4, 3e-3, 1e-2, 3e-2, 10.0})
      for (int64_t ranks : {1, 4}) {
        cluster.device.hostBandwidth = bandwidth;
        const Space space = makeSpace(ranks);
        Layout layout;
        layout.pipeline = ranks;
        for (const Shape &shape : space.listShapes(layout)) {
          BudgetBound bound(space, cluster, shape, times, curves, /*offloads=*/true);
          BudgetBound keeping(space, cluster, shape, times, curves);
          for (const std::string &name : space.listSchedules(shape)) {
            gathers = numTried % 2;
            hasStream = numTried % 3 == 0;
            makeStages(space, shape, price, /*offloaded=*/1 + numTried % 4);
            auto [seconds, bytes] = run(space, {shape, name});
            double held = std::accumulate(table.held.begin(), table.held.end(), 0.0);
            const double room = bytes * double(ranks) - held;
            const double all = bound.boundAll(room);
            const double one = bound.boundSchedule(name, table, bytes);
            EXPECT_GE(seconds, all) << name << ", " << ranks << " ranks, price " << price;
            EXPECT_GE(seconds, one) << name << ", " << ranks << " ranks, price " << price;
            // So much room the host has to have.
            cluster.hostMemory = hostBytes + 1e-6;
            BudgetBound hosting(space, cluster, shape, times, curves, /*offloads=*/true);
            const double within = hosting.boundSchedule(name, table, bytes);
            EXPECT_GE(seconds, within) << name << ", " << ranks << " ranks, price " << price;
            EXPECT_GE(seconds, hosting.boundAll(room));
            EXPECT_GE(within, one);
            cluster.hostMemory = std::max(hostBytes, 1.0) / 2;
            BudgetBound halved(space, cluster, shape, times, curves, /*offloads=*/true);
            numHosted += halved.boundSchedule(name, table, bytes) > one * 1.001;
            cluster.hostMemory = 0;
            // What may be offloaded, too, takes no longer.
            EXPECT_LE(all, keeping.boundAll(room));
            EXPECT_LE(one, keeping.boundSchedule(name, table, bytes));
            numBelow += keeping.boundSchedule(name, table, bytes) > seconds;
            closest = std::min(closest, seconds / one);
            if (one > bound.boundSchedule(name, table, 1e9) * 1.001) {
              closestRaised = std::min(closestRaised, seconds / one);
              ++numRaised;
            }
            ++numTried;
          }
        }
      }
  EXPECT_GT(numTried, 200u);
  EXPECT_GT(numRaised, numTried / 10);
  EXPECT_GT(numBelow, 0u) << "offloading is never faster";
  EXPECT_GT(numHosted, numTried / 10);
  EXPECT_LT(closest, 1.01) << "the bound is met by none";
  EXPECT_LT(closestRaised, 1.05) << "none that copies or recomputes meets it";
}

TEST_F(BudgetBoundTest, NothingFitsWithoutRoom) {
  Space space;
  space.programs.emplace_back();
  space.programs[0].layers = layers;
  space.programs[0].microbatches = 2;
  Layout layout;
  const Shape shape = space.listShapes(layout).front();
  // A value that cannot be recomputed.
  RecomputeGraph graph;
  graph.values.push_back({10, RecomputeGraph::none, true});
  curves.layers.assign(layers, std::make_shared<const RecomputeCurve>(graph));
  curves.streams.clear();
  BudgetBound bound(space, cluster, shape, times, curves);
  EXPECT_TRUE(std::isinf(bound.boundAll(layers * 10 - 1)));
  EXPECT_FALSE(std::isinf(bound.boundAll(layers * 10 + 1)));
  // In the host's memory there is room for it.
  cluster.device.hostBandwidth = 1;
  BudgetBound offloading(space, cluster, shape, times, curves, /*offloads=*/true);
  EXPECT_FALSE(std::isinf(offloading.boundAll(layers * 10 - 1)));
  EXPECT_GT(offloading.boundAll(1), bound.boundAll(1e9));
}
} // namespace
