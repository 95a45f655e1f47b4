// Every builder, over the whole grid of small sizes: valid, and free of deadlock.
#include "test/unit/schedule/TestUtils.h"

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
  unsigned count = forEachLegal(builder(), [&](const BuildRequest &request, Program compute) {
    SCOPED_TRACE(describe(builder(), request));
    ASSERT_EQ(verifyText(compute, {.models = {}, .buckets = {}, .computeOnly = true}), "");
    Program program = orFail(insertP2P(compute, {.recvStart = RecvStart::AtSend}));
    ASSERT_EQ(verifyText(program, options), "");
  });
  EXPECT_GT(count, 30u);
}

TEST_P(Builders, EarlyAndLateReceivesRunWhereReceivesAreIndependent) {
  forEachLegal(builder(), [&](const BuildRequest &request, const Program &compute) {
    SCOPED_TRACE(describe(builder(), request));
    for (CommModel model : {CommModel::gloo(), CommModel::nccl(StreamSharing::Direction),
                            CommModel::nccl(StreamSharing::Kind)})
      for (RecvStart start : {RecvStart::Early, RecvStart::Late}) {
        P2POptions options;
        options.model = model;
        options.recvStart = start;
        Program program = orFail(insertP2P(compute, options));
        ASSERT_EQ(verifyText(program, {.models = {model}, .buckets = {}}), "");
      }
  });
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
