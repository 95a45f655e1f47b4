// The fixed schedules of the Zero Bubble paper reproduce its bubble rates to four digits.
#include "test/unit/lib/schedule/simulate/Published.h"

#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/simulate/Metrics.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::simulate;
using test::PublishedRow;

static CostTable costsOf(const PublishedRow &row, unsigned chunks) {
  // One-chunk schedules of table 8 do the work of both chunks at once.
  double factor = double(row.chunks) / chunks;
  CostTable costs = CostTable::uniform(row.forward, row.input, row.weight, row.comm);
  llvm::cantFail(costs.setMemory(row.forwardMemory(), row.inputMemory(), row.weightMemory()));
  return costs.scaled(factor);
}

static Metrics run(const PublishedRow &row, llvm::StringRef name, bool explicitTransfers) {
  auto program = llvm::cantFail(
      schedule::buildSchedule(name, {.ranks = row.ranks, .microbatches = row.microbatches}));
  if (explicitTransfers)
    program = llvm::cantFail(schedule::insertP2P(program));
  Timeline timeline = llvm::cantFail(simulate::simulate(program, costsOf(row, 1)));
  return measure(program, timeline);
}

TEST(PublishedRates, FixedSchedulesToFourDigits) {
  unsigned checked = 0;
  for (const PublishedRow &row : test::readPublished())
    for (auto [name, column, budget] :
         {std::tuple{"1f1b", "1f1b", 1}, {"zb-h1", "zb_h1", 1}, {"zb-h2", "zb_h2", 2}}) {
      SCOPED_TRACE(row.model + " m=" + std::to_string(row.microbatches) + " " + name);
      Metrics metrics = run(row, name, false);
      EXPECT_NEAR(metrics.largestSpanBubbleRate, row.rate(column), 0.5e-4 + 1e-9);
      EXPECT_LE(metrics.maxPeakMemory(),
                budget * row.ranks * row.chunks * row.forwardMemory() * (1 + 1e-12));
      ++checked;
    }
  EXPECT_EQ(checked, 14u * 3);
}

TEST(PublishedRates, ExplicitTransfersTakeNoLongerThanTheImpliedOnes) {
  for (const PublishedRow &row : test::readPublished()) {
    Metrics implied = run(row, "zb-h1", false), sent = run(row, "zb-h1", true);
    EXPECT_NEAR(sent.makespan, implied.makespan, 1e-9 * implied.makespan) << row.model;
  }
}
