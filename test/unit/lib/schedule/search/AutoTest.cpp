// The search under the memory limits of the published searches.
#include "test/unit/lib/schedule/simulate/Published.h"

#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/Verify.h"
#include "lib/schedule/search/Auto.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace cleave;
using namespace cleave::schedule;
using namespace cleave::schedule::search;
using test::PublishedRow;

static AutoRequest requestFor(const PublishedRow &row, double memoryFactor) {
  AutoRequest request;
  request.ranks = row.ranks;
  request.microbatches = row.microbatches;
  request.chunks = row.chunks;
  if (row.chunks == 2)
    request.topology = TopologyStyle::V;
  request.costs = simulate::CostTable::uniform(row.forward, row.input, row.weight, row.comm);
  llvm::cantFail(
      request.costs.setMemory(row.forwardMemory(), row.inputMemory(), row.weightMemory()));
  // For the time this takes; users get more.
  request.effort = row.ranks >= 24 ? 0.4 : 0.1;
  request.memoryLimit = memoryFactor * row.ranks * row.chunks * row.forwardMemory();
  return request;
}

/// Rates are published to four digits.
static double rounded(double rate) {
  return std::round(rate * 1e4) / 1e4;
}

TEST(Auto, AtMostThePublishedRateOnEveryRow) {
  for (const PublishedRow &row : test::readPublished()) {
    std::vector<std::pair<std::string, double>> searches = {{"zbv", 1}};
    if (row.chunks == 1)
      searches = {{"zb_1p", 1}, {"zb_2p", 2}};
    for (const auto &[column, factor] : searches) {
      SCOPED_TRACE(row.model + " p=" + std::to_string(row.ranks) +
                   " m=" + std::to_string(row.microbatches) + " " + column);
      AutoRequest request = requestFor(row, factor);
      AutoResult result = llvm::cantFail(findSchedule(request));
      double rate = result.metrics.largestSpanBubbleRate;
      double bound = 1 - result.metrics.busy[0] / result.bound.largestSpan;
      EXPECT_LE(rounded(rate), row.rate(column));
      EXPECT_LE(result.bound.largestSpan, result.metrics.largestSpan * (1 + 1e-12));
      EXPECT_LE(result.bound.makespan, result.metrics.makespan * (1 + 1e-12));
      EXPECT_LE(result.metrics.maxPeakMemory(), request.memoryLimit * (1 + 1e-9));
      VerifyOptions options;
      options.computeOnly = true;
      EXPECT_TRUE(verify(result.program, options).empty());
      printf("%5s p=%u m=%u %s: published %.4f, found %.4f, bound %.4f (%s, %.1f s)\n",
             row.model.c_str(), row.ranks, row.microbatches, column.c_str(), row.rate(column), rate,
             bound, result.origin.c_str(), result.seconds);
    }
  }
}
