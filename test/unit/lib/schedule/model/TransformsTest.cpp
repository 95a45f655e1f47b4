// Merged backwards, reductions, optimizer steps, unsharding: small cases by hand, all by verify.
#include "lib/schedule/model/Transforms.h"
#include "test/unit/lib/schedule/TestUtils.h"

using namespace cleave::schedule;

namespace {
std::string listOf(const Schedule &program, unsigned rank) {
  std::string text;
  for (Action action : program.ranks[rank]) {
    if (!text.empty())
      text += ' ';
    text += program.str(action);
  }
  return text;
}

TEST(Transforms, MergeBackward) {
  Schedule program = orFail(buildSchedule("zb-h1", {2, 3}));
  mergeBackward(program);
  EXPECT_EQ(listOf(program, 0), "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2");
  EXPECT_EQ(listOf(program, 1), "F1.0 I1.0 F1.1 I1.1 W1.0 F1.2 I1.2 W1.1 W1.2");
  EXPECT_EQ(verifyText(orFail(insertP2P(program))), "");
}

TEST(Transforms, WholeStep) {
  for (const char *name : {"1f1b", "interleaved-zero-bubble", "zbv", "dualpipev", "looped-bfs"}) {
    Schedule program = orFail(buildSchedule(name, {.ranks = 2, .microbatches = 8}));
    std::vector<unsigned> buckets(program.numStages(), 3);
    mergeBackward(program);
    addGradientReductions(program, buckets);
    addOptimizerSteps(program);
    ASSERT_FALSE(bool(addUnshards(program)));
    program = orFail(insertP2P(program));
    EXPECT_EQ(verifyText(program, {.models = {}, .buckets = buckets}), "") << name;
  }
}

TEST(Transforms, UnshardKeepsTheStagesThatAreUsedNext) {
  Schedule program = orFail(buildSchedule("interleaved-1f1b", {1, 1, 3}));
  Schedule one = program;
  ASSERT_FALSE(bool(addUnshards(one, 1)));
  EXPECT_EQ(listOf(one, 0), "unshard0 F0.0 reshard0 unshard1 F1.0 reshard1 unshard2 F2.0 B2.0 "
                            "reshard2 unshard1 B1.0 reshard1 unshard0 B0.0 reshard0");
  Schedule two = program;
  ASSERT_FALSE(bool(addUnshards(two, 2)));
  EXPECT_EQ(listOf(two, 0), "unshard0 unshard1 F0.0 reshard0 unshard2 F1.0 F2.0 B2.0 reshard2 "
                            "unshard0 B1.0 reshard1 B0.0 reshard0");
  EXPECT_EQ(messageOf(addUnshards(program, 0)),
            "a rank needs room for the parameters of at least 1 stage, found 0");
}
} // namespace
