//===- CollectivesTest.cpp - Collectives over threads and over one rank ---===//

#include "test/unit/runtime/comm/RankChecks.h"
#include "test/unit/runtime/comm/TensorChecks.h"
#include "test/unit/runtime/comm/ThreadRanks.h"

#include "gtest/gtest.h"

#include <atomic>

using namespace cleave::runtime;
using namespace cleave::runtime::test;
using namespace std::chrono_literals;

namespace {

class Collectives : public testing::TestWithParam<int> {
protected:
  void expectSuccess(llvm::Error (*check)(Communicator &)) {
    auto outcomes = runThreadRanks(GetParam(), 20s, [&](Communicator &world) -> llvm::Error {
      if (llvm::Error error = check(world))
        return error;
      return world.finish();
    });
    for (const Outcome &outcome : outcomes)
      EXPECT_FALSE(outcome.failed) << outcome.message;
  }
};

TEST_P(Collectives, Reduce) {
  expectSuccess(checkReductions);
}
TEST_P(Collectives, Overlap) {
  expectSuccess(checkOverlap);
}
TEST_P(Collectives, Broadcast) {
  expectSuccess(checkBroadcasts);
}
TEST_P(Collectives, GatherBytes) {
  expectSuccess(checkByteGather);
}
TEST_P(Collectives, Exchange) {
  expectSuccess(checkExchange);
}
TEST_P(Collectives, Subgroups) {
  expectSuccess(checkSubgroups);
}

TEST_P(Collectives, TensorReductions) {
  expectSuccess(checkTensorReductions);
}
TEST_P(Collectives, SameBits) {
  expectSuccess(checkSameBits);
}
TEST_P(Collectives, SpecialReductions) {
  expectSuccess(checkSpecialReductions);
}
TEST_P(Collectives, Parts) {
  expectSuccess(checkParts);
}
TEST_P(Collectives, Moves) {
  expectSuccess(checkMoves);
}
TEST_P(Collectives, Pending) {
  expectSuccess(checkPending);
}

TEST_P(Collectives, BarrierHoldsUntilAllArrive) {
  std::atomic<int> arrived{0};
  auto outcomes = runThreadRanks(GetParam(), 20s, [&](Communicator &world) -> llvm::Error {
    std::this_thread::sleep_for(world.rank() * 30ms);
    ++arrived;
    if (llvm::Error error = world.barrier("the test"))
      return error;
    if (arrived != world.size())
      return llvm::createStringError("passed with %d arrived", arrived.load());
    return world.finish();
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
}

INSTANTIATE_TEST_SUITE_P(Threads, Collectives, testing::Values(2, 3, 4));

TEST(SingleRank, CollectivesAreTheIdentity) {
  std::unique_ptr<Communicator> world = makeSingleRankCommunicator();
  EXPECT_EQ(world->size(), 1);
  for (auto check : {checkReductions, checkOverlap, checkBroadcasts, checkByteGather,
                     checkSubgroups, checkTensorReductions, checkSameBits, checkSpecialReductions,
                     checkParts, checkMoves, checkPending})
    EXPECT_EQ(outcomeOf(check(*world)).message, "");
  EXPECT_EQ(outcomeOf(world->finish()).message, "");
  EXPECT_EQ(outcomeOf(receiveOnce(*world, 0, "x")).message,
            "receive of x: a rank cannot exchange with itself");
}

TEST(SingleRank, JoiningNeedsNoRendezvous) {
  llvm::Expected<std::unique_ptr<Communicator>> world = connect(Rendezvous());
  ASSERT_TRUE(bool(world));
  EXPECT_EQ((*world)->size(), 1);
}

TEST(Arguments, RanksOutsideTheGroup) {
  auto outcomes = runThreadRanks(2, 5s, [](Communicator &world) -> llvm::Error {
    EXPECT_EQ(outcomeOf(receiveOnce(world, 2, "x")).message,
              "receive: group \"world\" has ranks 0 to 1, there is no rank 2");
    EXPECT_EQ(outcomeOf(receiveOnce(world, world.rank(), "x")).message,
              "receive of x: a rank cannot exchange with itself");
    EXPECT_EQ(outcomeOf(world.subgroup({1, 0}, "dp").takeError()).message,
              "subgroup \"dp\": ranks must ascend without repetition, but 0 follows 1");
    EXPECT_EQ(outcomeOf(world.subgroup({1 - world.rank()}, "dp").takeError()).message,
              "subgroup \"dp\" does not contain rank " + std::to_string(world.rank()) +
                  ", which requested it");
    return world.finish();
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
}

} // namespace
