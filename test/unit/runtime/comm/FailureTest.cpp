//===- FailureTest.cpp - Lost, late and disagreeing ranks as threads ------===//

#include "test/unit/runtime/comm/RankChecks.h"
#include "test/unit/runtime/comm/ThreadRanks.h"

#include "runtime/comm/Socket.h"

#include "gtest/gtest.h"

#include <thread>

using namespace cleave::runtime;
using namespace cleave::runtime::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kTimeout = 1000ms;
/// A failure must be reported within the timeout; this much more allows for a busy machine.
constexpr double kLatest = 1 + 2.5;

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
}

TEST(Stuck, RankThatDoesNotReachACollectiveIsNamed) {
  auto outcomes = runThreadRanks(3, kTimeout, [](Communicator &world) -> llvm::Error {
    if (llvm::Error error = reduceOnce(world, "the first gradient"))
      return error;
    if (world.rank() == 1)
      std::this_thread::sleep_for(kTimeout + 1s);
    return reduceOnce(world, "gradient \"w\"");
  });
  for (int rank : {0, 2}) {
    EXPECT_TRUE(outcomes[rank].peerFailure) << outcomes[rank].message;
    EXPECT_EQ(outcomes[rank].missing, std::vector<int>{1}) << outcomes[rank].message;
    expectContains(outcomes[rank].message, "all_reduce of gradient \"w\", operation 2");
    expectContains(outcomes[rank].message,
                   "rank 1 has not reached it (its last is all_reduce of the first "
                   "gradient, operation 1)");
    EXPECT_LT(outcomes[rank].seconds, kLatest);
  }
  EXPECT_TRUE(outcomes[1].peerFailure) << outcomes[1].message;
}

TEST(Stuck, SenderThatDoesNotSendIsNamed) {
  auto outcomes = runThreadRanks(3, kTimeout, [](Communicator &world) -> llvm::Error {
    if (world.rank() == 0)
      return receiveOnce(world, 2, "an activation");
    std::this_thread::sleep_for(kTimeout + 1s);
    return llvm::Error::success();
  });
  EXPECT_EQ(outcomes[0].missing, std::vector<int>{2}) << outcomes[0].message;
  expectContains(outcomes[0].message,
                 "receive of an activation from rank 2, tag 7, did not complete within 1 s");
  EXPECT_LT(outcomes[0].seconds, kLatest);
}

TEST(Stuck, OperationsThatDoNotMatchAreNamed) {
  auto outcomes = runThreadRanks(2, kTimeout, [](Communicator &world) -> llvm::Error {
    return world.rank() == 0 ? reduceOnce(world, "gradient \"w\"")
                             : broadcastOnce(world, "parameter \"w\"");
  });
  EXPECT_TRUE(outcomes[0].failed);
  EXPECT_TRUE(outcomes[1].failed);
  expectContains(outcomes[0].message + outcomes[1].message, "is in another operation there");
}

/// Gloo would end the process.
TEST(Stuck, SizesThatDoNotMatchAreAnError) {
  for (auto run : {reduceOnce, gatherOnce}) {
    auto outcomes = runThreadRanks(3, 20s, [&](Communicator &world) -> llvm::Error {
      if (llvm::Error error = run(world, "x", 1000))
        return error;
      return run(world, "y", world.rank() == 1 ? 2000 : 3000);
    });
    std::string all;
    for (auto &outcome : outcomes) {
      EXPECT_TRUE(outcome.failed);
      EXPECT_LT(outcome.seconds, 10);
      all += outcome.message + "\n";
    }
    expectContains(all, " elements of Float, another rank has ");
    expectContains(all, "expected the same on all ranks");
  }
}

TEST(Lost, RankThatEndsEarlyIsNamedAtOnce) {
  for (int lost : {0, 2}) {
    auto outcomes = runThreadRanks(4, 20s, [&](Communicator &world) -> llvm::Error {
      return world.rank() == lost ? llvm::Error::success() : reduceOnce(world, "x");
    });
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == lost)
        continue;
      EXPECT_EQ(outcomes[rank].missing, std::vector<int>{lost}) << outcomes[rank].message;
      expectContains(outcomes[rank].message, "it ended before the program did");
      EXPECT_LT(outcomes[rank].seconds, 3);
    }
  }
}

TEST(Lost, ItsOwnErrorReachesTheOthers) {
  auto outcomes = runThreadRanks(2, 20s, [](Communicator &world) -> llvm::Error {
    return world.rank() == 1 ? llvm::createStringError("the loss is NaN at step 3")
                             : reduceOnce(world, "x");
  });
  EXPECT_EQ(outcomes[0].message,
            "all_reduce of x, operation 1 of group \"world\", cannot complete: "
            "rank 1 is lost: the loss is NaN at step 3");
}

TEST(Lost, AWaitingReceiveIsInterrupted) {
  auto outcomes = runThreadRanks(3, 20s, [](Communicator &world) -> llvm::Error {
    // The sender lives; it is a third rank that is lost.
    if (world.rank() == 2)
      std::this_thread::sleep_for(500ms);
    else if (world.rank() == 1)
      std::this_thread::sleep_for(1500ms);
    else
      return receiveOnce(world, 1, "an activation");
    return llvm::Error::success();
  });
  EXPECT_EQ(outcomes[0].missing, std::vector<int>{2}) << outcomes[0].message;
  EXPECT_LT(outcomes[0].seconds, 1.4);
}

TEST(Lost, CheckPeersTellsBetweenOperations) {
  auto outcomes = runThreadRanks(2, 20s, [](Communicator &world) -> llvm::Error {
    if (llvm::Error error = world.checkPeers())
      return error;
    if (llvm::Error error = world.barrier("the start"))
      return error;
    if (world.rank() == 1) {
      // The other one must be out of the barrier.
      std::this_thread::sleep_for(500ms);
      return llvm::createStringError("out of memory");
    }
    std::this_thread::sleep_for(1500ms);
    return world.checkPeers();
  });
  EXPECT_EQ(outcomes[0].message, "rank 1 is lost: out of memory");
}

TEST(Joining, RanksThatDoNotAppearAreNamed) {
  std::shared_ptr<InProcessStore> store = makeInProcessStore();
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> threads;
  for (int rank : {0, 1})
    threads.emplace_back([&, rank] {
      Rendezvous rendezvous;
      rendezvous.rank = rank;
      rendezvous.size = 5;
      rendezvous.inProcess = store;
      ConnectOptions options;
      options.timeout = 1s;
      outcomes[rank] = outcomeOf(connect(rendezvous, options).takeError());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Outcome &outcome : outcomes)
    EXPECT_TRUE(outcome.peerFailure) << outcome.message;
  expectContains(outcomes[0].message + outcomes[1].message,
                 "ranks 2-4 of 5 did not join within 1 s");
}

TEST(Joining, AbsentRankZeroIsNamed) {
  Rendezvous rendezvous;
  rendezvous.rank = 1;
  rendezvous.size = 2;
  ConnectOptions options;
  options.timeout = 300ms;
  // A port that was free a moment ago.
  {
    auto socket = listenOn(0, true);
    ASSERT_TRUE(bool(socket));
    rendezvous.port = llvm::cantFail(listeningPort(*socket));
  }
  Outcome outcome = outcomeOf(connect(rendezvous, options).takeError());
  EXPECT_EQ(outcome.missing, std::vector<int>{0});
  expectContains(outcome.message,
                 "the rendezvous, which rank 0 serves, is unreachable: cannot connect to "
                 "127.0.0.1:" +
                     std::to_string(rendezvous.port));
}

TEST(Joining, APortInUseIsReported) {
  auto socket = listenOn(0, true);
  ASSERT_TRUE(bool(socket));
  Rendezvous rendezvous;
  rendezvous.size = 2;
  rendezvous.oneMachine = true;
  rendezvous.port = llvm::cantFail(listeningPort(*socket));
  Outcome outcome = outcomeOf(connect(rendezvous, {}).takeError());
  EXPECT_EQ(outcome.message, "rank 0 cannot serve the rendezvous: cannot listen on port " +
                                 std::to_string(rendezvous.port) + ": Address already in use");
}

} // namespace
