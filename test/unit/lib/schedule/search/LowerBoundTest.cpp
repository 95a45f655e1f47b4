// The lower bound and the search against all orders of tiny pipelines.
#include "lib/schedule/search/Auto.h"
#include "lib/schedule/search/Evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>

using namespace cleave;
using namespace cleave::schedule;
using namespace cleave::schedule::search;

/// The least span and makespan over all orders of two ranks with two microbatches.
static std::pair<double, double> enumerate(const Pipeline &pipeline) {
  std::vector<std::vector<uint8_t>> lists;
  std::vector<uint8_t> list = {0, 0, 1, 1, 2, 2};
  do
    lists.push_back(list);
  while (std::next_permutation(list.begin(), list.end()));
  Evaluator evaluator(pipeline);
  double span = std::numeric_limits<double>::infinity(), makespan = span;
  for (const auto &first : lists)
    for (const auto &second : lists) {
      PassOrder order{1, {first, second}};
      if (!evaluator.fitsMemory(order) || !evaluator.run(order))
        continue;
      span = std::min(span, evaluator.largestSpan);
      makespan = std::min(makespan, evaluator.makespan);
    }
  return {span, makespan};
}

TEST(LowerBound, HoldsAndTheSearchFindsTheBestOfAllOrders) {
  const double tables[][4] = {{1, 1, 1, 0}, {1, 2, 1, 0.5}, {2, 1, 3, 0.25}, {3, 2, 0.5, 1}};
  for (const auto &cost : tables)
    for (double limit : {1.0, 1.5, 2.0, 9.0}) {
      AutoRequest request;
      request.ranks = request.microbatches = 2;
      request.costs = simulate::CostTable::uniform(cost[0], cost[1], cost[2], cost[3]);
      llvm::cantFail(request.costs.setMemory(1, 0.5, 0.5));
      request.memoryLimit = limit;
      request.effort = 0.005;
      Topology topology = llvm::cantFail(Topology::get(TopologyStyle::Loop, 2, 2));
      Pipeline pipeline = llvm::cantFail(Pipeline::get(topology, 2, request.costs, limit));
      auto [span, makespan] = enumerate(pipeline);
      LowerBound bound = lowerBound(pipeline);
      SCOPED_TRACE("F=" + std::to_string(cost[0]) + " limit=" + std::to_string(limit));
      EXPECT_LE(bound.largestSpan, span + 1e-9);
      EXPECT_LE(bound.makespan, makespan + 1e-9);
      request.spanFirst = false;
      EXPECT_NEAR(llvm::cantFail(findSchedule(request)).metrics.makespan, makespan, 1e-9);
    }
}

TEST(LowerBound, HoldsForEverySchedule) {
  for (unsigned ranks : {2u, 3u, 5u})
    for (unsigned chunks : {1u, 2u})
      for (double limit : {1.0, 2.0}) {
        AutoRequest request;
        request.ranks = ranks;
        request.microbatches = 3 * ranks;
        request.chunks = chunks;
        request.costs = simulate::CostTable::uniform(1, 1.2, 0.7, 0.1);
        llvm::cantFail(request.costs.setMemory(1, 0.6, 0.4));
        request.memoryLimit = limit * ranks * chunks;
        request.effort = 0.01;
        AutoResult result = llvm::cantFail(findSchedule(request));
        EXPECT_LE(result.bound.largestSpan, result.metrics.largestSpan + 1e-9);
        EXPECT_LE(result.bound.makespan, result.metrics.makespan + 1e-9);
      }
}
