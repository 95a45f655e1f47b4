// Names, preconditions and topologies: each refused with its own message.
#include "lib/schedule/builders/Builders.h"
#include "test/unit/lib/schedule/TestUtils.h"

using namespace cleave::schedule;

namespace {
std::string buildError(llvm::StringRef name, BuildRequest request) {
  auto program = buildSchedule(name, request);
  return program ? "accepted" : messageOf(program.takeError());
}

TEST(Registry, FindsNamesLoosely) {
  const ScheduleRegistry &registry = ScheduleRegistry::global();
  for (const char *name : {"1F1B", "Interleaved1F1B", "looped_bfs", "ZB-H1", "zbh2", "ZB1P",
                           "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV", "V-Half"})
    EXPECT_NE(registry.find(name), nullptr) << name;
  EXPECT_EQ(registry.find("2f2b"), nullptr);
  EXPECT_EQ(buildError("2f2b", {}),
            "unknown schedule '2f2b'; known schedules: gpipe, looped-bfs, 1f1b, interleaved-1f1b, "
            "interleaved-zero-bubble, zb-h1, zb-h2, zbv, dualpipev, v-half, v-min, offline");
}

TEST(Registry, RefusesTakenNames) {
  ScheduleRegistry registry;
  EXPECT_FALSE(bool(registry.add(create1F1B())));
  EXPECT_EQ(messageOf(registry.add(create1F1B())),
            "a schedule named '1f1b' is already registered: one forward, one backward in steady "
            "state (arXiv 2006.09503)");
  EXPECT_EQ(registry.all().size(), 1u);
}

TEST(Registry, Preconditions) {
  EXPECT_EQ(buildError("1f1b", {.ranks = 0}), "schedule '1f1b' needs at least 1 rank, found 0");
  EXPECT_EQ(buildError("1f1b", {.ranks = 2, .microbatches = 0}),
            "schedule '1f1b' needs at least 1 microbatch, found 0");
  EXPECT_EQ(buildError("1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2}),
            "schedule '1f1b' needs exactly 1 stage per rank, found 2");
  EXPECT_EQ(buildError("gpipe", {.ranks = 2, .microbatches = 4, .chunks = 0}),
            "schedule 'gpipe' needs at least 1 chunk (stage per rank), found 0");
  EXPECT_EQ(buildError("zbv", {.ranks = 2, .microbatches = 4, .chunks = 3}),
            "schedule 'zbv' needs exactly 2 stages per rank, found 3");
  EXPECT_EQ(buildError("zbv", {.ranks = 2, .microbatches = 4, .topology = TopologyStyle::Loop}),
            "schedule 'zbv' needs the v topology, found loop");
  EXPECT_EQ(
      buildError("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .topology = TopologyStyle::V}),
      "schedule 'interleaved-1f1b' needs the loop topology, found v");
  EXPECT_EQ(buildError("interleaved-1f1b", {.ranks = 2, .microbatches = 5}),
            "schedule 'interleaved-1f1b' needs a multiple of 2 microbatches (2 = 5 microbatches / "
            "2 ranks, rounded down, is its number of rounds), found 5");
  EXPECT_EQ(buildError("dualpipev", {.ranks = 4, .microbatches = 7}),
            "schedule 'dualpipev' needs at least as many microbatches as stages (8), found 7");
  EXPECT_EQ(buildError("offline", {.ranks = 2}),
            "schedule 'offline' runs on exactly 1 rank, found 2");
  EXPECT_EQ(buildError("zbv", {.ranks = 2, .microbatches = 4, .forwardOnly = true}),
            "schedule 'zbv' orders backward actions and cannot run forward only; 'looped-bfs' and "
            "'gpipe' can");
  EXPECT_EQ(buildError("looped-bfs", {.ranks = 40000, .microbatches = 1, .chunks = 2}),
            "schedule 'looped-bfs': at most 65536 stages are supported, found 40000 ranks with 2 "
            "stages each");
  EXPECT_EQ(buildError("1f1b", {.ranks = 65536, .microbatches = 1u << 24}),
            "schedule '1f1b': 65536 stages with 16777216 microbatches are 1099511627776 steps, at "
            "most 268435456 are supported");
  EXPECT_EQ(buildError("interleaved-1f1b", {.ranks = 2, .microbatches = 4, .stages = 5}),
            "schedule 'interleaved-1f1b' needs the same number of stages on each rank, found 5 "
            "stages for 2 ranks; 'looped-bfs' and schedules from files do not");
  EXPECT_EQ(buildError("looped-bfs", {.ranks = 6, .microbatches = 4, .stages = 5}),
            "schedule 'looped-bfs' needs a stage for each of the 6 ranks, found 5");
  EXPECT_EQ(buildError("1f1b", {.ranks = 2, .microbatches = 1u << 25}),
            "schedule '1f1b': at most 16777216 microbatches are supported, found 33554432");
}

TEST(Registry, ForwardOnlyPrograms) {
  for (const char *name : {"gpipe", "looped-bfs", "offline"}) {
    BuildRequest request{std::string(name) == "offline" ? 1u : 3u, 5};
    request.forwardOnly = true;
    Schedule program = orFail(insertP2P(orFail(buildSchedule(name, request))));
    EXPECT_EQ(verifyText(program), "") << name;
    EXPECT_EQ(verifyText(parse([&] {
                std::string text;
                llvm::raw_string_ostream os(text);
                printText(program, os);
                return text;
              }())),
              "");
  }
}

TEST(Registry, RanksWithDifferentNumbersOfStages) {
  for (unsigned stages : {3u, 4u, 5u, 7u}) {
    Schedule program =
        orFail(buildSchedule("looped-bfs", {.ranks = 3, .microbatches = 4, .stages = stages}));
    EXPECT_EQ(program.numStages(), stages);
    EXPECT_EQ(verifyText(orFail(insertP2P(program))), "");
  }
}

TEST(Topologies, LoopAndV) {
  Topology loop = orFail(Topology::get(TopologyStyle::Loop, 2, 6));
  EXPECT_EQ(loop.stageToRank(), (llvm::ArrayRef<unsigned>{0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(loop.stagesOf(1), (llvm::ArrayRef<unsigned>{1, 3, 5}));
  Topology v = orFail(Topology::get(TopologyStyle::V, 3, 9));
  EXPECT_EQ(v.stageToRank(), (llvm::ArrayRef<unsigned>{0, 1, 2, 2, 1, 0, 0, 1, 2}));
  EXPECT_EQ(v.stagesOf(0), (llvm::ArrayRef<unsigned>{0, 5, 6}));
  EXPECT_EQ(orFail(Topology::fromMap(3, v.stageToRank())).style(), TopologyStyle::V);
  EXPECT_EQ(orFail(Topology::fromMap(2, {0, 0, 1})).style(), TopologyStyle::Custom);
  // The last pass over the ranks of a loop may end early; of a V it may not.
  Topology uneven = orFail(Topology::get(TopologyStyle::Loop, 3, 5));
  EXPECT_EQ(uneven.stageToRank(), (llvm::ArrayRef<unsigned>{0, 1, 2, 0, 1}));
  EXPECT_EQ(orFail(Topology::fromMap(3, uneven.stageToRank())).style(), TopologyStyle::Loop);
  EXPECT_EQ(orFail(Topology::fromMap(3, {0, 1, 2, 2, 1})).style(), TopologyStyle::Custom);
  for (auto [ranks, stages] : {std::pair(0u, 4u), {4u, 0u}, {4u, 6u}, {1u, 70000u}}) {
    auto refused = Topology::get(TopologyStyle::V, ranks, stages);
    EXPECT_FALSE(bool(refused));
    llvm::consumeError(refused.takeError());
  }
}

TEST(Transfers, RefusesWhatHasThemAlready) {
  Schedule program = orFail(insertP2P(orFail(buildSchedule("1f1b", {2, 2}))));
  auto again = insertP2P(program);
  ASSERT_FALSE(bool(again));
  EXPECT_EQ(messageOf(again.takeError()), "the schedule already has sends and receives");
}
} // namespace
