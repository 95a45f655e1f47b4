// The plans of a space, and contradictions in what is fixed.
#include "lib/plan/Fixed.h"

#include "gtest/gtest.h"

using namespace cleave;
using namespace cleave::plan;

namespace {
Space makeSpace(int64_t ranks, llvm::StringRef fixed = "") {
  Space space;
  space.ranks = ranks;
  space.programs = {{"gpt.mlir", /*batch=*/8, /*microbatches=*/4, /*layers=*/6, true, true}};
  space.fixed = llvm::cantFail(parseFixed(fixed));
  return space;
}

std::string getError(const Space &space) {
  return llvm::toString(checkFixed(space));
}

TEST(Space, DividesRanksBatchAndLayers) {
  Space space = makeSpace(12);
  std::vector<Layout> layouts = space.listLayouts();
  EXPECT_FALSE(layouts.empty());
  for (const Layout &layout : layouts) {
    EXPECT_EQ(layout.data * layout.tensor * layout.pipeline, 12);
    EXPECT_EQ(8 % layout.data, 0);
    EXPECT_LE(layout.pipeline, 6);
    EXPECT_FALSE(layout.dataInside); // one level
    for (const Shape &shape : space.listShapes(layout)) {
      EXPECT_LE(shape.numStages(), 6);
      EXPECT_EQ(int64_t(space.listCuts(shape).size()), shape.numStages() - 1);
    }
  }
}

TEST(Space, CutsLayersInEqualRuns) {
  Space space = makeSpace(4);
  EXPECT_EQ(space.listCuts({{0, 1, 1, 4}}), (std::vector<int64_t>{2, 4, 5}));
  EXPECT_EQ(space.listCuts({{0, 2, 1, 2}}), (std::vector<int64_t>{3}));
  EXPECT_TRUE(space.listCuts({{0, 4, 1, 1}}).empty());
}

TEST(Space, OrdersMatterBeyondANode) {
  Space space = makeSpace(8, "dp=4,tp=2,replicas=1");
  size_t without = space.listLayouts().size();
  space.units = {8};
  EXPECT_EQ(space.listLayouts().size(), without);
  space.units = {4};
  EXPECT_EQ(space.listLayouts().size(), 2 * without);
}

TEST(Space, CopiesOfShardedParametersFillUnits) {
  Space space = makeSpace(16, "pp=1");
  space.programs.front().batch = 16;
  auto count = [&] {
    size_t hybrid = 0;
    for (const Layout &layout : space.listLayouts()) {
      if (layout.replicas == 1)
        continue;
      ++hybrid;
      EXPECT_TRUE(layout.sharding == Sharding::Fsdp || layout.sharding == Sharding::FsdpOnce);
      EXPECT_EQ(layout.data % layout.replicas, 0);
      EXPECT_FALSE(layout.dataInside);
    }
    return hybrid;
  };
  EXPECT_EQ(count(), 0u); // one level
  space.units = {4};
  for (const Layout &layout : space.listLayouts())
    EXPECT_TRUE(layout.replicas == 1 || layout.numDataShards() * layout.tensor == 4);
  // tp of 1 and of 2, gathered in each microbatch or once. With tp of 4 there is one rank a node.
  EXPECT_EQ(count(), 4u);
  space.units = {4, 8};
  EXPECT_EQ(count(), 10u);
  space.fixed = llvm::cantFail(parseFixed("pp=1,tp=1,replicas=2"));
  EXPECT_EQ(count(), 2u);
  space.units.clear();
  EXPECT_EQ(count(), 2u);
  space.fixed = llvm::cantFail(parseFixed("replicas=3"));
  EXPECT_NE(getError(space).find("has replicas=3 (the program"), std::string::npos);
  space.fixed = llvm::cantFail(parseFixed("replicas=2,parameters=zero1"));
  EXPECT_NE(getError(space).find("has parameters=zero1 and replicas=2"), std::string::npos);
}

TEST(Space, ExpertsDivideTheBatchToo) {
  Space space = makeSpace(8);
  for (const Layout &layout : space.listLayouts())
    EXPECT_EQ(layout.experts, 1);
  space.programs.front().experts = 12;
  space.programs.front().tokens = 64;
  bool hasTwo = false, hasFour = false;
  for (const Layout &layout : space.listLayouts()) {
    EXPECT_EQ(layout.numParts() * layout.pipeline, 8);
    EXPECT_EQ(12 % layout.experts, 0);
    EXPECT_EQ(8 % (layout.data * layout.experts), 0);
    EXPECT_TRUE(layout.experts == 1 || layout.context == 1);
    hasTwo |= layout.experts == 2;
    hasFour |= layout.experts == 4 && layout.sharding == Sharding::Zero1;
  }
  EXPECT_TRUE(hasTwo && hasFour);
  space.fixed = llvm::cantFail(parseFixed("ep=4,dp=2"));
  for (const Layout &layout : space.listLayouts())
    EXPECT_EQ(layout.experts, 4);
  EXPECT_FALSE(space.isEmpty());
  space.fixed = llvm::cantFail(parseFixed("ep=4,dp=4"));
  EXPECT_NE(getError(space).find("has dp=4 and ep=4 (the program"), std::string::npos);
}

TEST(Space, OneRankOfThePipelineHasNoSchedule) {
  Space space = makeSpace(2, "dp=2");
  for (const Layout &layout : space.listLayouts())
    for (const Shape &shape : space.listShapes(layout))
      EXPECT_EQ(space.listSchedules(shape), std::vector<std::string>{"1f1b"});
}

TEST(Fixed, ValuesOfPlans) {
  Space space = makeSpace(8, "tp=2,pp=2,schedule=zbv,parameters=fsdp");
  EXPECT_FALSE(space.isEmpty());
  for (const Layout &layout : space.listLayouts())
    for (const Shape &shape : space.listShapes(layout))
      for (const std::string &schedule : space.listSchedules(shape)) {
        Plan plan{shape, schedule};
        EXPECT_EQ(getValue(plan, Key::Tensor, space.programs), "2");
        EXPECT_EQ(getValue(plan, Key::Data, space.programs), "2");
        EXPECT_EQ(getValue(plan, Key::Chunks, space.programs), "2");
        EXPECT_EQ(getValue(plan, Key::Sharding, space.programs), "fsdp");
        EXPECT_EQ(schedule, "zbv");
        EXPECT_EQ(getValue(plan, Key::Offload, space.programs), "no");
        plan.offloads = true;
        EXPECT_EQ(getValue(plan, Key::Offload, space.programs), "yes");
      }
}

TEST(Fixed, SmallestContradiction) {
  EXPECT_EQ(getError(makeSpace(4)), "");
  EXPECT_EQ(getError(makeSpace(4, "recompute=full,tp=4,pp=2")),
            "--fix: no plan for 4 ranks has tp=4 and pp=2 (the program: 8 examples, 6 layers, 4 "
            "microbatches); without one of them there are some");
  EXPECT_NE(getError(makeSpace(4, "tp=3,recompute=none")).find("has tp=3 (the program"),
            std::string::npos);
  EXPECT_NE(
      getError(makeSpace(4, "schedule=zbv,chunks=1,dp=2")).find("has chunks=1 and schedule=zbv"),
      std::string::npos);
  EXPECT_NE(getError(makeSpace(4, "parameters=fsdp,dp=1")).find("has dp=1 and parameters=fsdp"),
            std::string::npos);
  EXPECT_NE(getError(makeSpace(4, "tp=2,recompute=full,offload=yes"))
                .find("has recompute=full and offload=yes"),
            std::string::npos);
  EXPECT_EQ(getError(makeSpace(4, "recompute=full,offload=no")), "");
  Space space = makeSpace(11);
  space.programs.front().hasTensorRules = false;
  EXPECT_EQ(getError(space), "no plan for 11 ranks divides the program (8 examples, 6 layers, 4 "
                             "microbatches)");
}

TEST(Fixed, Misuse) {
  auto error = [](llvm::StringRef text) { return llvm::toString(parseFixed(text).takeError()); };
  EXPECT_EQ(error("xp=2"),
            "--fix: expected dp, tp, pp, cp, ep, neighbours, sequence, parameters, replicas, "
            "chunks, ends, recompute, offload, schedule, microbatches, found 'xp'");
  EXPECT_EQ(error("tp=0"), "--fix: expected a number of at least 1 for tp, found '0'");
  EXPECT_EQ(error("tp"), "--fix: expected a number of at least 1 for tp, found ''");
  EXPECT_EQ(error("recompute=some"),
            "--fix: expected none, cheap, full for recompute, found 'some'");
  EXPECT_EQ(error("tp=2,tp=4"), "--fix: expected one value for tp, found '2' and '4'");
}
} // namespace
