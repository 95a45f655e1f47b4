// V-Half and V-Min against what their paper promises (arXiv 2405.15362), its authors' scheduler and
// the lower bound; forward, input gradient and weight gradient of a chunk take one unit each.
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/search/LowerBound.h"
#include "lib/schedule/simulate/Metrics.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::schedule;

namespace {
simulate::CostTable equalCosts() {
  simulate::CostTable costs = simulate::CostTable::uniform(1, 1, 1, 0);
  llvm::cantFail(costs.setMemory(1, 0, 1));
  return costs;
}

simulate::Metrics run(const char *name, unsigned ranks, unsigned microbatches) {
  Schedule program =
      llvm::cantFail(buildSchedule(name, {.ranks = ranks, .microbatches = microbatches}));
  return simulate::measure(program, llvm::cantFail(simulate::simulate(program, equalCosts())));
}

/// The published memory in chunks: floor((p + 2) / 2) and floor((p + 4) / 3) microbatches, where
/// 1F1B holds p.
unsigned publishedMemory(bool half, unsigned ranks) {
  return 2 * (half ? (ranks + 2) / 2 : (ranks + 4) / 3);
}

/// The idle units of a rank from the building blocks. Rank 0 idles until the first microbatch's
/// turn is back (the block's reach less what fits before), and the reordered ends leave the rest.
unsigned bubble(bool half, unsigned ranks) {
  if (half)
    return ranks == 2 ? 1 : ranks % 2 ? 3 * ranks - 4 : 3 * ranks - 7;
  return ranks % 3 == 1 ? 4 * ranks - 5 : 4 * ranks - 7;
}

TEST(ControllableMemory, PublishedMemoryAndBubble) {
  for (bool half : {false, true})
    for (unsigned ranks : {2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 16u, 23u, 24u, 32u})
      for (unsigned microbatches : {2 * ranks, 2 * ranks + 7, 2 * ranks + 9, 6 * ranks}) {
        SCOPED_TRACE(std::string(half ? "v-half" : "v-min") + " ranks " + std::to_string(ranks) +
                     " microbatches " + std::to_string(microbatches));
        simulate::Metrics found = run(half ? "v-half" : "v-min", ranks, microbatches);
        EXPECT_EQ(found.maxPeakMemory(), publishedMemory(half, ranks));
        EXPECT_EQ(found.makespan, 6 * microbatches + bubble(half, ranks));
        // 1F1B idles 6 (p - 1) of these units, V-Half a half of it, V-Min two thirds.
        EXPECT_LE(found.makespan, 6 * microbatches + (half ? 3 : 4) * (ranks - 1));
      }
}

TEST(ControllableMemory, ShortRunsKeepWithinTheMemory) {
  for (bool half : {false, true})
    for (unsigned ranks = 1; ranks <= 12; ++ranks)
      for (unsigned microbatches = 1; microbatches <= 2 * ranks; ++microbatches) {
        simulate::Metrics found = run(half ? "v-half" : "v-min", ranks, microbatches);
        EXPECT_LE(found.maxPeakMemory(), publishedMemory(half, ranks));
        EXPECT_LE(found.makespan, 6 * microbatches + (half ? 4 * ranks + 3 : 4 * ranks));
      }
}

/// The makespans of the authors' scheduler (sail-sg/zero-bubble-pipeline-parallelism,
/// zerobubble/scheduler/zbv_greedy.py) with these costs: what its algorithm gives.
struct Theirs {
  bool half;
  unsigned ranks, microbatches, makespan;
};
constexpr Theirs theirs[] = {
    {true, 2, 2, 15},     {true, 2, 8, 49},    {true, 3, 3, 23},    {true, 3, 12, 77},
    {true, 4, 2, 22},     {true, 4, 4, 34},    {true, 4, 8, 53},    {true, 4, 16, 101},
    {true, 5, 5, 44},     {true, 5, 20, 131},  {true, 6, 6, 48},    {true, 6, 24, 155},
    {true, 7, 7, 66},     {true, 8, 2, 38},    {true, 8, 8, 65},    {true, 8, 32, 209},
    {true, 9, 9, 82},     {true, 12, 12, 101}, {true, 12, 48, 317}, {true, 16, 64, 425},
    {false, 2, 2, 15},    {false, 2, 8, 51},   {false, 3, 3, 26},   {false, 3, 12, 77},
    {false, 4, 2, 23},    {false, 4, 4, 35},   {false, 4, 16, 107}, {false, 5, 5, 45},
    {false, 5, 20, 135},  {false, 6, 6, 53},   {false, 6, 24, 161}, {false, 8, 3, 44},
    {false, 8, 8, 75},    {false, 8, 32, 219}, {false, 12, 3, 58},  {false, 12, 12, 113},
    {false, 12, 48, 329}, {false, 16, 64, 443}};

TEST(ControllableMemory, NeverLongerThanTheAuthorsScheduler) {
  unsigned shorter = 0;
  for (const Theirs &row : theirs) {
    SCOPED_TRACE(std::string(row.half ? "v-half" : "v-min") + " ranks " +
                 std::to_string(row.ranks) + " microbatches " + std::to_string(row.microbatches));
    simulate::Metrics found = run(row.half ? "v-half" : "v-min", row.ranks, row.microbatches);
    EXPECT_LE(found.makespan, row.makespan);
    shorter += found.makespan < row.makespan;
  }
  EXPECT_GE(shorter, 12u);
}

TEST(ControllableMemory, OptimalOrWithinTwoUnits) {
  for (bool half : {false, true})
    for (unsigned ranks : {3u, 4u, 5u, 6u, 8u, 9u, 12u, 16u}) {
      unsigned microbatches = 4 * ranks;
      SCOPED_TRACE(std::string(half ? "v-half" : "v-min") + " ranks " + std::to_string(ranks));
      Topology topology = llvm::cantFail(Topology::get(TopologyStyle::V, ranks, 2 * ranks));
      auto pipeline = llvm::cantFail(search::Pipeline::get(topology, microbatches, equalCosts(),
                                                           publishedMemory(half, ranks)));
      double bound = search::lowerBound(pipeline).makespan;
      double found = run(half ? "v-half" : "v-min", ranks, microbatches).makespan;
      EXPECT_GE(found, bound - 1e-6);
      EXPECT_LE(found, bound + 2 + 1e-6);
      std::printf("%s %u ranks: %.0f, no order takes less than %.0f\n", half ? "v-half" : "v-min",
                  ranks, found, bound);
    }
}
} // namespace
