// The simulator on small programs whose times can be worked out by hand.
#include "lib/schedule/builders/Builder.h"
#include "lib/schedule/model/P2P.h"
#include "lib/schedule/simulate/Metrics.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::schedule;
using namespace cleave::simulate;

static Schedule twoRanks(unsigned microbatches) {
  Schedule program;
  program.topology = llvm::cantFail(Topology::get(TopologyStyle::Loop, 2, 2));
  program.numMicrobatches = microbatches;
  program.ranks.resize(2);
  return program;
}

TEST(Simulator, TimesMemoryAndWhatWasWaitedFor) {
  Schedule program = twoRanks(1);
  program.ranks[0] = {Action(ActionKind::Forward, 0), Action(ActionKind::BackwardInput, 0),
                      Action(ActionKind::BackwardWeight, 0)};
  program.ranks[1] = {Action(ActionKind::Forward, 1), Action(ActionKind::BackwardInput, 1),
                      Action(ActionKind::BackwardWeight, 1)};
  CostTable costs = CostTable::uniform(2, 3, 1, 0.5);
  llvm::cantFail(costs.setMemory(10, 6, 4));
  Timeline timeline = llvm::cantFail(simulate::simulate(program, costs));
  EXPECT_DOUBLE_EQ(timeline.ranks[1][0].start, 2.5);
  EXPECT_DOUBLE_EQ(timeline.ranks[1][1].start, 4.5);
  EXPECT_DOUBLE_EQ(timeline.ranks[0][1].start, 8);
  EXPECT_EQ(timeline.ranks[0][1].waitedFor.rank, 1u);
  EXPECT_EQ(timeline.ranks[0][1].waitedFor.position, 1u);
  EXPECT_FALSE(timeline.ranks[0][2].waitedFor);
  EXPECT_DOUBLE_EQ(timeline.exposedCommunication[0], 0.5);
  Metrics metrics = measure(program, timeline);
  EXPECT_DOUBLE_EQ(metrics.makespan, 12);
  EXPECT_DOUBLE_EQ(metrics.bubbleRate, 0.5);
  EXPECT_DOUBLE_EQ(metrics.span[1], 6);
  EXPECT_DOUBLE_EQ(metrics.largestSpan, 12);
  EXPECT_DOUBLE_EQ(metrics.peakMemory[0], 10);
  EXPECT_EQ(memoryCurve(program, costs, 0), (std::vector<double>{10, 4, 0}));
}

TEST(Simulator, TransfersOfALinkFollowEachOther) {
  Schedule program = twoRanks(2);
  program.forwardOnly = true;
  program.ranks[0] = {Action(ActionKind::Forward, 0, 0), Action(ActionKind::Forward, 0, 1)};
  program.ranks[1] = {Action(ActionKind::Forward, 1, 0), Action(ActionKind::Forward, 1, 1)};
  Timeline timeline = llvm::cantFail(simulate::simulate(program, CostTable::uniform(1, 1, 1, 5)));
  EXPECT_DOUBLE_EQ(timeline.ranks[1][0].start, 6);
  EXPECT_DOUBLE_EQ(timeline.ranks[1][1].start, 11);
}

TEST(Simulator, GroupsRunTogetherAndOverlap) {
  Schedule program = llvm::cantFail(buildSchedule("dualpipev", {.ranks = 2, .microbatches = 4}));
  CostTable costs = CostTable::uniform(1, 1, 1, 0);
  double apart = measure(program, llvm::cantFail(simulate::simulate(program, costs))).makespan;
  costs.overlap = 1;
  double together = measure(program, llvm::cantFail(simulate::simulate(program, costs))).makespan;
  EXPECT_LT(together, apart);
}

TEST(Simulator, RendezvousWaitsForBothEnds) {
  Schedule program = twoRanks(1);
  program.forwardOnly = true;
  Action custom = program.addCustom({"load"});
  program.ranks[0] = {Action(ActionKind::Forward, 0), Action(ActionKind::SendForward, 0)};
  program.ranks[1] = {custom, Action(ActionKind::RecvForward, 1), Action(ActionKind::Forward, 1)};
  CostTable costs = CostTable::uniform(1, 1, 1, 2);
  costs.named["load"] = 4;
  for (CommModel model : {CommModel::gloo(), CommModel::nccl()}) {
    Timeline timeline = llvm::cantFail(simulate::simulate(program, costs, {model}));
    EXPECT_DOUBLE_EQ(timeline.ranks[0][1].start, 4);
    EXPECT_DOUBLE_EQ(timeline.ranks[1][2].start, 6);
    EXPECT_DOUBLE_EQ(timeline.rankEnd[0], 6); // the send is complete only then
  }
}

TEST(Simulator, CollectivesStartWithTheLastRank) {
  Schedule program = twoRanks(1);
  program.forwardOnly = true;
  Action both = program.addCollective({"sum", {0, 1}});
  program.ranks[0] = {Action(ActionKind::Forward, 0), both};
  program.ranks[1] = {Action(ActionKind::Forward, 1), both};
  CostTable costs = CostTable::uniform(1, 1, 1, 0);
  costs.named["sum"] = 3;
  Timeline timeline = llvm::cantFail(simulate::simulate(program, costs));
  EXPECT_DOUBLE_EQ(timeline.ranks[0][1].start, 2);
  EXPECT_DOUBLE_EQ(timeline.ranks[1][1].end, 5);
  EXPECT_EQ(timeline.ranks[0][1].waitedFor.rank, 1u);
}

TEST(Simulator, ShardedStagesWaitForTheirParameters) {
  Schedule program = twoRanks(1);
  program.ranks[0] = {Action(ActionKind::Unshard, 0), Action(ActionKind::Forward, 0),
                      Action(ActionKind::Backward, 0), Action(ActionKind::ReduceGrad, 0),
                      Action(ActionKind::OptimizerStep, 0)};
  program.ranks[1] = {Action(ActionKind::Forward, 1), Action(ActionKind::Backward, 1)};
  CostTable costs = CostTable::uniform(1, 1, 1, 0);
  costs.stages[0].unshard = 2;
  costs.stages[0].reduce = 3;
  costs.stages[0].optimizer = 1;
  Timeline timeline = llvm::cantFail(simulate::simulate(program, costs));
  EXPECT_DOUBLE_EQ(timeline.ranks[0][1].start, 2);  // after the unshard
  EXPECT_DOUBLE_EQ(timeline.ranks[0][2].start, 6);  // 3 (F0) + 1 + 2 on rank 1
  EXPECT_DOUBLE_EQ(timeline.ranks[0][4].start, 11); // after the reduction
  EXPECT_DOUBLE_EQ(timeline.rankEnd[0], 12);
}

TEST(Simulator, NamesWhatIsBlocked) {
  Schedule program = twoRanks(1);
  program.ranks[0] = {Action(ActionKind::Backward, 0), Action(ActionKind::Forward, 0)};
  program.ranks[1] = {Action(ActionKind::Forward, 1), Action(ActionKind::Backward, 1)};
  auto timeline = simulate::simulate(program, CostTable());
  ASSERT_FALSE(bool(timeline));
  std::string message = llvm::toString(timeline.takeError());
  EXPECT_NE(message.find("rank 0, position 0: B0.0"), std::string::npos) << message;
}

TEST(Simulator, EveryScheduleRunsWithInsertedTransfers) {
  for (const ScheduleBuilder *builder : ScheduleRegistry::global().all())
    for (unsigned ranks : {1u, 2u, 4u}) {
      auto program = builder->build({.ranks = ranks, .microbatches = 8});
      if (!program) {
        llvm::consumeError(program.takeError());
        continue;
      }
      CostTable costs = CostTable::uniform(1, 1, 1, 0.25);
      auto makespan = [&](const CostTable &table) {
        return measure(*program, llvm::cantFail(simulate::simulate(*program, table))).makespan;
      };
      // Matched by tag, transfers of a link do not wait for each other; in stream order they do.
      double free = makespan(CostTable::uniform(1, 1, 1, 0)), implied = makespan(costs);
      for (CommModel model : {CommModel::gloo(), CommModel::nccl()}) {
        double minimum = model.matching == Matching::Tag ? free : implied;
        P2POptions options;
        options.model = model;
        Schedule full = llvm::cantFail(insertP2P(*program, options));
        Timeline timeline = llvm::cantFail(simulate::simulate(full, costs, {model}));
        EXPECT_GE(measure(full, timeline).makespan, minimum - 1e-9) << builder->name().str();
      }
    }
}
