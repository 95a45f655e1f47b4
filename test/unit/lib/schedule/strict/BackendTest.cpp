// The strict backend itself: what completes, what does not, and what it says.
#include "test/unit/lib/schedule/strict/StrictBackend.h"

#include <gtest/gtest.h>

#include <chrono>

using namespace cleave::strict;
using at::Tensor;

namespace {
using Tensors = std::vector<Tensor>;
Tensors one(double value) {
  return {at::full({2}, value, at::kDouble)};
}

/// Two or more ranks on communicators over all of them.
struct World {
  explicit World(unsigned size, CommOptions options = {})
      : size(size), options(options), fabric(size, deliverTensors) {
    for (unsigned rank = 0; rank < size; ++rank)
      members.push_back(rank);
  }
  StrictBackend backend(unsigned rank, const char *name = "world") {
    return StrictBackend(fabric, name, rank, members, options);
  }
  void run(const std::function<void(unsigned)> &body) {
    auto start = std::chrono::steady_clock::now();
    fabric.run(body);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  unsigned size;
  CommOptions options;
  Fabric fabric;
  std::vector<unsigned> members;
  double seconds = 0;
};
CommOptions byTag() {
  CommOptions options;
  options.matching = Matching::Tag;
  return options;
}
CommOptions sharing(StreamSharing streams) {
  CommOptions options;
  options.streams = streams;
  return options;
}

TEST(StrictBackend, ASendIsCompleteOnlyWithItsReceive) {
  World world(2);
  std::atomic<bool> before = true, after = false;
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors value = one(rank ? 0 : 7), ready = one(0);
    if (rank == 0) {
      auto send = backend.send(value, 1, 1);
      // Rank 1 receives nothing before this message came through.
      backend.send(ready, 1, 2);
      before = send->isCompleted();
      send->wait();
      after = send->isCompleted();
    } else {
      backend.recv(value, 0, 1)->wait();
      backend.recv(ready, 0, 2)->wait();
      EXPECT_EQ(value[0][0].item<double>(), 7);
    }
  });
  EXPECT_TRUE(after);
  EXPECT_FALSE(world.fabric.isStuck()) << world.fabric.report();
}

TEST(StrictBackend, NothingIsBuffered) {
  World world(2);
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors mine = one(rank), theirs = one(0);
    backend.send(mine, 1 - rank, 0)->wait(); // both send first
    backend.recv(theirs, 1 - rank, 0)->wait();
  });
  ASSERT_TRUE(world.fabric.isStuck());
  EXPECT_LT(world.seconds, 1);
  EXPECT_EQ(world.fabric.report(),
            "rank 0: waits for send to rank 1 (tag 0) on 'world', for which it needs rank 1, which "
            "has not started it\n"
            "rank 1: waits for send to rank 0 (tag 0) on 'world', for which it needs rank 0, which "
            "has not started it\n");
}

/// Rank 0 sends 1 and 2, rank 1 receives in the other order. Returns what came first.
double receivedOutOfOrder(World &world, bool groups = false) {
  double first = 0;
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors a = one(rank ? 0 : 1), b = one(rank ? 0 : 2);
    if (groups)
      backend.startCoalescing();
    auto second = rank ? backend.recv(b, 0, 2) : backend.send(a, 1, 1);
    auto third = rank ? backend.recv(a, 0, 1) : backend.send(b, 1, 2);
    if (groups)
      second = third = backend.endCoalescing();
    second->wait();
    third->wait();
    if (rank)
      first = b[0][0].item<double>();
  });
  return first;
}

TEST(StrictBackend, TagsMatchInAnyOrder) {
  World world(2, byTag());
  EXPECT_EQ(receivedOutOfOrder(world), 2);
  EXPECT_FALSE(world.fabric.isStuck());
  EXPECT_EQ(world.fabric.numMismatches(), 0u);
}

TEST(StrictBackend, FirstInFirstOutDisregardsTags) {
  for (bool groups : {false, true}) {
    World world(2);
    EXPECT_EQ(receivedOutOfOrder(world, groups), 1) << "the wrong one";
    EXPECT_FALSE(world.fabric.isStuck());
    EXPECT_EQ(world.fabric.numMismatches(), 2u);
  }
}

TEST(StrictBackend, LanesAreChannelsOfTheirOwn) {
  CommOptions options;
  options.lanes = 2;
  World world(2, options);
  EXPECT_EQ(receivedOutOfOrder(world), 2);
  EXPECT_EQ(world.fabric.numMismatches(), 0u);
}

/// Both ranks start a send to each other, then a receive, and wait for both. True if stuck.
bool sendsFirst(StreamSharing streams, bool groups) {
  World world(2, sharing(streams));
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors mine = one(rank), theirs = one(-1);
    if (groups)
      backend.startCoalescing();
    auto send = backend.send(mine, 1 - rank, 0);
    auto recv = backend.recv(theirs, 1 - rank, 0);
    if (groups)
      send = recv = backend.endCoalescing();
    recv->wait();
    send->wait();
    EXPECT_EQ(theirs[0][0].item<double>(), 1. - rank);
  });
  if (world.fabric.isStuck()) {
    EXPECT_NE(world.fabric.report().find("recv from rank 1 (tag 0) on 'world', queued behind send "
                                         "to rank 1 (tag 0) on 'world'"),
              std::string::npos)
        << world.fabric.report();
  }
  return world.fabric.isStuck();
}

TEST(StrictBackend, WhatSharesAStreamWaitsItsTurn) {
  EXPECT_TRUE(sendsFirst(StreamSharing::World, false));
  EXPECT_TRUE(sendsFirst(StreamSharing::Peer, false));
  EXPECT_FALSE(sendsFirst(StreamSharing::Direction, false));
}

TEST(StrictBackend, AGroupStartsTogether) {
  EXPECT_FALSE(sendsFirst(StreamSharing::World, true));
  EXPECT_FALSE(sendsFirst(StreamSharing::Peer, true));
}

TEST(StrictBackend, AGroupIsCompleteAsAWhole) {
  World world(2);
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors a = one(rank), b = one(rank);
    if (rank == 0) {
      backend.send(a, 1, 0)->wait();
      // Rank 1's first receive is done, its group is not.
      backend.recv(a, 1, 2)->wait();
      backend.send(b, 1, 1)->wait();
    } else {
      backend.startCoalescing();
      backend.recv(a, 0, 0);
      backend.recv(b, 0, 1);
      backend.endCoalescing()->wait();
      backend.send(a, 0, 2)->wait();
    }
  });
  ASSERT_TRUE(world.fabric.isStuck());
  EXPECT_NE(world.fabric.report().find("rank 1: waits for recv from rank 0 (tag 0) on 'world' with "
                                       "recv from rank 0 (tag 1) on 'world', for which it needs "
                                       "rank 0, which has not started it"),
            std::string::npos)
      << world.fabric.report();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

TEST(StrictBackend, CollectivesCompute) {
  World world(3);
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    auto reduce = [&](c10d::ReduceOp::RedOpType kind) {
      Tensors value = {at::full({2}, rank + 1., at::kDouble)};
      c10d::AllreduceOptions options;
      options.reduceOp = kind;
      backend.allreduce(value, options)->wait();
      return value[0][1].item<double>();
    };
    EXPECT_EQ(reduce(c10d::ReduceOp::SUM), 6);
    EXPECT_EQ(reduce(c10d::ReduceOp::AVG), 2);
    EXPECT_EQ(reduce(c10d::ReduceOp::PRODUCT), 6);
    EXPECT_EQ(reduce(c10d::ReduceOp::MIN), 1);
    EXPECT_EQ(reduce(c10d::ReduceOp::MAX), 3);
    Tensors sent = one(rank);
    c10d::BroadcastOptions from;
    from.rootRank = 2;
    backend.broadcast(sent, from)->wait();
    EXPECT_EQ(sent[0][0].item<double>(), 2);
    Tensor part = at::full({2}, double(rank), at::kDouble), whole = at::empty({6}, at::kDouble);
    backend._allgather_base(whole, part, {})->wait();
    EXPECT_TRUE(at::equal(whole, at::tensor({0., 0., 1., 1., 2., 2.}, at::kDouble)));
    backend._reduce_scatter_base(part, whole, {})->wait();
    EXPECT_TRUE(at::equal(part, at::full({2}, 3. * rank, at::kDouble)));
    backend.barrier({})->wait();
  });
  EXPECT_FALSE(world.fabric.isStuck());
  for (unsigned rank = 0; rank < 3; ++rank)
    EXPECT_EQ(world.fabric.failure(rank), "");
}

TEST(StrictBackend, CollectivesThatDisagreeAreErrorsOnEveryRank) {
  World world(2);
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors value = one(1);
    if (rank)
      backend.broadcast(value, {})->wait();
    else
      backend.allreduce(value, {})->wait();
  });
  EXPECT_FALSE(world.fabric.isStuck());
  for (unsigned rank = 0; rank < 2; ++rank)
    EXPECT_EQ(world.fabric.failure(rank),
              "allreduce(sum) on 'world' of 16 bytes of rank 0 met broadcast(from 0) on 'world' of "
              "16 bytes of rank 1");
}

TEST(StrictBackend, EndsThatDisagreeInSizeAreErrorsOnBothRanks) {
  World world(2);
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    Tensors value = {at::zeros({rank + 2}, at::kDouble)};
    (rank ? backend.recv(value, 0, 0) : backend.send(value, 1, 0))->wait();
  });
  for (unsigned rank = 0; rank < 2; ++rank)
    EXPECT_EQ(world.fabric.failure(rank), "send to rank 1 (tag 0) on 'world' of 16 bytes of rank 0 "
                                          "met recv from rank 0 (tag 0) on 'world' of 24 bytes of "
                                          "rank 1");
}

/// Two communicators, entered in different orders. True if stuck.
bool crossed(bool sharedStream, bool waitAtOnce) {
  CommOptions options;
  options.streams = StreamSharing::World;
  if (sharedStream)
    options.streamScope = "device";
  World world(2, options);
  world.run([&](unsigned rank) {
    StrictBackend tensor = world.backend(rank, "tensor"), data = world.backend(rank, "data");
    Tensors a = one(1), b = one(1);
    auto first = (rank ? tensor : data).allreduce(a, {});
    if (waitAtOnce)
      first->wait();
    auto second = (rank ? data : tensor).allreduce(b, {});
    first->wait();
    second->wait();
  });
  return world.fabric.isStuck();
}

TEST(StrictBackend, OrderOfCollectivesAcrossCommunicators) {
  EXPECT_TRUE(crossed(/*sharedStream=*/false, /*waitAtOnce=*/true));
  EXPECT_TRUE(crossed(/*sharedStream=*/true, /*waitAtOnce=*/false));
  EXPECT_FALSE(crossed(/*sharedStream=*/false, /*waitAtOnce=*/false));
}

TEST(StrictBackend, AWaitForARankThatEndedIsStuck) {
  World world(3);
  world.run([&](unsigned rank) {
    StrictBackend backend = world.backend(rank);
    if (rank == 1)
      throw std::runtime_error("out of memory");
    Tensors value = one(1);
    backend.allreduce(value, {})->wait();
  });
  ASSERT_TRUE(world.fabric.isStuck());
  EXPECT_EQ(world.fabric.failure(1), "out of memory");
  EXPECT_NE(world.fabric.report().find("needs rank 1, which has ended"), std::string::npos)
      << world.fabric.report();
}

TEST(StrictBackend, MisuseIsRefused) {
  World world(2);
  auto messageOf = [](auto fn) {
    try {
      fn();
    } catch (const c10::Error &error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  StrictBackend backend = world.backend(0);
  Tensors value = one(1), two = {value[0], value[0]};
  EXPECT_EQ(messageOf([&] { backend.send(value, 2, 0); }), "send to rank 2 of 2 from rank 0");
  EXPECT_EQ(messageOf([&] { backend.recv(value, 0, 0); }), "receive from rank 0 of 2 on rank 0");
  EXPECT_EQ(messageOf([&] { backend.send(two, 1, 0); }), "expected one tensor, found 2");
  EXPECT_EQ(messageOf([&] { backend.endCoalescing(); }), "endCoalescing without startCoalescing");
  EXPECT_EQ(messageOf([&] { StrictBackend(world.fabric, "other", 0, {1}); }),
            "rank 0 is no member of communicator 'other'");
  EXPECT_THROW(StrictBackend(world.fabric, "world", 0, {0}), std::invalid_argument);
}
} // namespace
