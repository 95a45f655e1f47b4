//===- PeerMonitorTest.cpp - Who is lost, who is where --------------------===//

#include "runtime/comm/PeerMonitor.h"

#include "gtest/gtest.h"

#include <unistd.h>

using namespace cleave::runtime;
using namespace std::chrono_literals;

namespace {

/// A job's monitors in one process.
std::vector<std::unique_ptr<PeerMonitor>> makeMonitors(int size) {
  std::vector<std::unique_ptr<PeerMonitor>> monitors;
  monitors.push_back(llvm::cantFail(PeerMonitor::host(size, true, {"127.0.0.1"})));
  for (int rank = 1; rank < size; ++rank)
    monitors.push_back(
        llvm::cantFail(PeerMonitor::join(rank, size, monitors[0]->endpoint(), Clock::now() + 5s)));
  for (auto &monitor : monitors)
    EXPECT_TRUE(monitor->waitForAll(Clock::now() + 5s));
  return monitors;
}

TEST(PeerMonitor, EveryRankLearnsWhereTheOthersAre) {
  auto monitors = makeMonitors(3);
  monitors[0]->setPosition("world", 4, "barrier");
  monitors[2]->setPosition("world", 3, "all_reduce");
  monitors[2]->setPosition("dp", 9, "broadcast");
  for (auto &monitor : monitors) {
    auto positions = monitor->askPositions("world", 5s);
    ASSERT_EQ(positions.size(), 3u);
    for (auto &position : positions)
      EXPECT_EQ(position.state, PeerPosition::State::Running);
    EXPECT_EQ(positions[0].started, 4u);
    EXPECT_EQ(positions[0].operation, "barrier");
    EXPECT_EQ(positions[1].started, 0u);
    EXPECT_EQ(positions[2].started, 3u);
    EXPECT_EQ(monitor->askPositions("dp", 5s)[2].started, 9u);
  }
}

TEST(PeerMonitor, ABrokenConnectionIsALossOnAllOthers) {
  for (int lost : {0, 1, 2}) {
    auto monitors = makeMonitors(3);
    monitors[lost].reset();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == lost)
        continue;
      auto loss = monitors[rank]->waitForLoss(5s);
      ASSERT_TRUE(loss);
      EXPECT_EQ(loss->rank, lost);
      EXPECT_EQ(loss->reason, "its process has ended or is unreachable");
    }
  }
}

TEST(PeerMonitor, AFailureComesWithReasonAndBlame) {
  for (int failing : {0, 1}) {
    auto monitors = makeMonitors(3);
    monitors[failing]->fail("rank 2 is late", {2});
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == failing)
        continue;
      auto loss = monitors[rank]->waitForLoss(5s);
      ASSERT_TRUE(loss);
      EXPECT_EQ(loss->rank, failing);
      EXPECT_EQ(loss->reason, "rank 2 is late");
      EXPECT_EQ(loss->blamed, std::vector<int>{2});
    }
  }
}

TEST(PeerMonitor, LeavingIsNoLoss) {
  auto monitors = makeMonitors(3);
  monitors[1]->leave();
  monitors[1].reset();
  // Leaving and asking travel over different connections.
  auto left = [&] {
    return monitors[2]->askPositions("world", 200ms)[1].state == PeerPosition::State::Left;
  };
  for (int attempt = 0; attempt < 100 && !left(); ++attempt)
    ::usleep(10000);
  EXPECT_TRUE(left());
  EXPECT_FALSE(monitors[0]->hasLoss());
  EXPECT_FALSE(monitors[2]->hasLoss());
}

TEST(PeerMonitor, AbsentRanksAreNotJoined) {
  auto hub = llvm::cantFail(PeerMonitor::host(3, true, {"127.0.0.1"}));
  auto other = llvm::cantFail(PeerMonitor::join(1, 3, hub->endpoint(), Clock::now() + 5s));
  EXPECT_FALSE(other->waitForAll(Clock::now() + 100ms));
  EXPECT_EQ(other->askPositions("world", 5s)[2].state, PeerPosition::State::NotJoined);
  EXPECT_EQ(hub->askPositions("world", 5s)[2].state, PeerPosition::State::NotJoined);
}

TEST(PeerMonitor, ASecondProcessOfARankIsRefused) {
  auto monitors = makeMonitors(2);
  auto second = llvm::cantFail(PeerMonitor::join(1, 2, monitors[0]->endpoint(), Clock::now() + 5s));
  auto loss = second->waitForLoss(5s);
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->reason,
            "another process has joined as this rank: two ranks have the same number");
  EXPECT_FALSE(monitors[0]->hasLoss());
  EXPECT_FALSE(monitors[1]->hasLoss());
}

TEST(PeerMonitor, StrangersAreNotTakenForRanks) {
  auto hub = llvm::cantFail(PeerMonitor::host(2, true, {"127.0.0.1"}));
  llvm::StringRef endpoint = hub->endpoint();
  uint16_t port = 0;
  ASSERT_FALSE(endpoint.split(' ').second.split(' ').first.getAsInteger(10, port));
  std::vector<std::string> greetings = {"GET / HTTP/1.0\r\n\r\n", std::string(64, '\xff'),
                                        std::string("\x0c\0\0\0\0\1\0\0\0\0\0\0\0wrongkey", 21),
                                        ""};
  for (const std::string &greeting : greetings) {
    auto socket = llvm::cantFail(connectTo("127.0.0.1", port, Clock::now() + 5s));
    sendAll(socket, greeting);
  }
  EXPECT_FALSE(hub->waitForAll(Clock::now() + 200ms));
  EXPECT_FALSE(hub->hasLoss());
  auto other = llvm::cantFail(PeerMonitor::join(1, 2, hub->endpoint(), Clock::now() + 5s));
  EXPECT_TRUE(other->waitForAll(Clock::now() + 5s));
}

TEST(PeerMonitor, AnEndpointOfAnotherVersionIsRefused) {
  auto monitor = PeerMonitor::join(1, 2, "v2:127.0.0.1", Clock::now() + 1s);
  EXPECT_EQ(llvm::toString(monitor.takeError()),
            "rank 0 published an address that this version of Cleave does not understand: "
            "\"v2:127.0.0.1\"");
}

TEST(PeerMonitor, EndsWhatDoesNotNoticeALoss) {
  auto monitors = makeMonitors(2);
  std::atomic<int> ended{-1};
  monitors[1]->endAfterLoss(100ms, [&](const PeerLoss &loss) { ended = loss.rank; });
  monitors[0].reset();
  for (int attempt = 0; attempt < 300 && ended < 0; ++attempt)
    ::usleep(10000);
  EXPECT_EQ(ended, 0);
}

} // namespace
