// Every builder, over the whole grid of small sizes: valid, and free of deadlock.
#include "test/unit/lib/schedule/TestUtils.h"

using namespace cleave::schedule;

namespace {
class Builders : public testing::TestWithParam<std::string> {
protected:
  const ScheduleBuilder &builder() const { return *ScheduleRegistry::global().find(GetParam()); }
};

TEST_P(Builders, EveryLegalProgramIsValidUnderEveryModel) {
  VerifyOptions options;
  options.models = {CommModel::gloo(), CommModel::nccl(StreamSharing::World),
                    CommModel::nccl(StreamSharing::Peer), CommModel::nccl(StreamSharing::Direction),
                    CommModel::nccl(StreamSharing::Kind)};
  unsigned count = forEachLegal(builder(), [&](const BuildRequest &request, Schedule compute) {
    SCOPED_TRACE(describe(builder(), request));
    ASSERT_EQ(verifyText(compute, {.models = {}, .buckets = {}, .computeOnly = true}), "");
    Schedule program = orFail(insertP2P(compute, {.recvStart = RecvStart::AtSend}));
    ASSERT_EQ(verifyText(program, options), "");
  });
  EXPECT_GT(count, 30u);
}

TEST_P(Builders, EarlyAndLateReceivesRunWhereReceivesAreIndependent) {
  forEachLegal(builder(), [&](const BuildRequest &request, const Schedule &compute) {
    SCOPED_TRACE(describe(builder(), request));
    for (CommModel model : {CommModel::gloo(), CommModel::nccl(StreamSharing::Direction),
                            CommModel::nccl(StreamSharing::Kind)})
      for (RecvStart start : {RecvStart::Early, RecvStart::Late}) {
        P2POptions options;
        options.model = model;
        options.recvStart = start;
        Schedule program = orFail(insertP2P(compute, options));
        ASSERT_EQ(verifyText(program, {.models = {model}, .buckets = {}}), "");
      }
  });
}

/// The most microbatches whose activations a rank holds: a forward of one of `chunks` stages adds
/// 1 / chunks, its (weight) backward takes it away.
double peakMicrobatches(const Schedule &program) {
  double chunks = double(program.numStages()) / program.numRanks(), peak = 0;
  for (const std::vector<Action> &list : program.ranks) {
    int held = 0;
    for (Action action : list)
      program.forEachLeaf(action, [&](Action leaf) {
        held += leaf.kind == ActionKind::Forward;
        peak = std::max(peak, held / chunks);
        held -= leaf.kind == ActionKind::Backward || leaf.kind == ActionKind::BackwardWeight;
      });
  }
  return peak;
}

TEST(Memory, IsWhatTheSchedulesPromise) {
  for (unsigned ranks : {2u, 3u, 4u, 6u, 8u, 16u, 24u}) {
    auto peak = [&](const char *name) {
      return peakMicrobatches(
          orFail(buildSchedule(name, {.ranks = ranks, .microbatches = 4 * ranks})));
    };
    double p = ranks;
    EXPECT_EQ(peak("gpipe"), 4 * p);
    EXPECT_EQ(peak("1f1b"), p);
    EXPECT_EQ(peak("zb-h1"), p);
    EXPECT_EQ(peak("zb-h2"), 2 * p - 1);
    EXPECT_EQ(peak("zbv"), p);
    EXPECT_LE(peak("dualpipev"), p + 0.5);
    EXPECT_EQ(peak("v-half"), (ranks + 2) / 2);
    EXPECT_EQ(peak("v-min"), (ranks + 4) / 3);
  }
}

std::vector<std::string> allNames() {
  std::vector<std::string> names;
  for (const ScheduleBuilder *builder : ScheduleRegistry::global().all())
    names.push_back(builder->name().str());
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Builders, testing::ValuesIn(allNames()), [](const auto &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});
} // namespace
