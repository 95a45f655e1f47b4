//===- JobTest.cpp - Whole jobs, started by --ranks -----------------------===//

#include "test/unit/runtime/comm/RankChecks.h"
#include "test/unit/runtime/launch/Processes.h"

#include "runtime/comm/Failure.h"
#include "runtime/comm/SameProgram.h"
#include "runtime/comm/Socket.h"
#include "runtime/launch/Job.h"

#include "gtest/gtest.h"

#include <csignal>

#include <unistd.h>

using namespace cleave::runtime;
using namespace cleave::runtime::test;
using namespace std::chrono_literals;

namespace {

struct Job : Process {
  Job(std::optional<int> ranks, const JobBody &body, std::chrono::milliseconds timeout = 20s,
      bool asThreads = false, const std::map<std::string, std::string> &environment = {})
      : Process(environment, [&] {
          JobOptions options;
          options.ranks = ranks;
          options.timeout = timeout;
          options.asThreads = asThreads;
          return runJob(options, body);
        }) {}
};

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
}

class AnyRanks : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(AnyRanks, AllOperations) {
  auto [ranks, asThreads] = GetParam();
  Job job(
      ranks, [](Communicator &world, const RankEnvironment &) { return checkEverything(world); },
      20s, asThreads);
  EXPECT_EQ(job.wait(), 0) << job.errors();
  EXPECT_EQ(job.errors(), "");
}

INSTANTIATE_TEST_SUITE_P(Local, AnyRanks, testing::Combine(testing::Values(2, 4), testing::Bool()));

TEST(Job, OneRankIsThisProcess) {
  for (std::optional<int> ranks : {std::optional<int>(), std::optional<int>(1)}) {
    Job job(ranks, [parent = ::getpid()](Communicator &world, const RankEnvironment &) {
      EXPECT_EQ(::getppid(), parent);
      return checkReductions(world);
    });
    EXPECT_EQ(job.wait(), 0) << job.errors();
  }
}

TEST(Job, AKilledRankEndsAllAndIsNamed) {
  for (int lost : {0, 2}) {
    Job job(4, [lost](Communicator &world, const RankEnvironment &) -> llvm::Error {
      if (llvm::Error error = reduceOnce(world, "the first gradient"))
        return error;
      if (world.rank() == lost) {
        letOthersFollow();
        ::raise(SIGKILL);
      }
      return reduceOnce(world, "gradient \"w\"");
    });
    EXPECT_EQ(job.wait(6), 128 + SIGKILL) << job.errors();
    std::string name = "rank " + std::to_string(lost);
    expectContains(job.errors(), "error: " + name + " was killed by signal 9 (Killed); rank ");
    // The first that notices says what it could not complete; the others have nothing to add.
    std::string waiting = " was in all_reduce of gradient \"w\", operation 2 of group \"world\"\n";
    EXPECT_EQ(llvm::StringRef(job.errors()).count('\n'), 1u) << job.errors();
    EXPECT_EQ(llvm::StringRef(job.errors()).count(waiting), 1u) << job.errors();
  }
}

TEST(Job, ARankBetweenOperationsDoesNotHideOneThatWaits) {
  Job job(3, [](Communicator &world, const RankEnvironment &) -> llvm::Error {
    if (llvm::Error error = reduceOnce(world, "the first gradient"))
      return error;
    if (world.rank() == 2) {
      letOthersFollow();
      ::raise(SIGKILL);
    }
    // Rank 0 is the first to notice, and has nothing that it waits for.
    while (world.rank() == 0) {
      if (llvm::Error error = world.checkPeers())
        return error;
      ::usleep(100);
    }
    return reduceOnce(world, "gradient \"w\"");
  });
  EXPECT_EQ(job.wait(6), 128 + SIGKILL) << job.errors();
  expectContains(job.errors(), "error: rank 2 was killed by signal 9 (Killed); rank 1 was in "
                               "all_reduce of gradient \"w\"");
}

TEST(Job, AStoppedRankIsNamedWithinTheTimeout) {
  Job job(
      3,
      [](Communicator &world, const RankEnvironment &) -> llvm::Error {
        if (llvm::Error error = reduceOnce(world, "the first gradient"))
          return error;
        if (world.rank() == 1) {
          letOthersFollow();
          ::raise(SIGSTOP);
        }
        return reduceOnce(world, "gradient \"w\"");
      },
      1s);
  EXPECT_EQ(job.wait(8), kPeerFailureStatus) << job.errors();
  expectContains(job.errors(), "did not complete within 1 s: rank 1 does not respond");
  expectContains(job.errors(), "; stopped rank 1, still running\n");
  EXPECT_EQ(llvm::StringRef(job.errors()).count('\n'), 1u) << job.errors();
  EXPECT_EQ(llvm::StringRef(job.errors()).count("does not respond"), 1u) << job.errors();
}

TEST(Job, TheStoppedFirstRankAloneIsAccused) {
  Job job(
      3,
      [](Communicator &world, const RankEnvironment &) -> llvm::Error {
        if (llvm::Error error = reduceOnce(world, "the first gradient"))
          return error;
        if (world.rank() == 0) {
          letOthersFollow();
          ::raise(SIGSTOP);
        }
        return reduceOnce(world, "gradient \"w\"");
      },
      1s);
  EXPECT_EQ(job.wait(8), kPeerFailureStatus) << job.errors();
  std::string errors = job.errors();
  expectContains(errors, "did not complete within 1 s: rank 0 does not respond");
  for (const char *other : {"rank 1 does not", "rank 2 does not", "rank 1 has", "rank 2 has"})
    EXPECT_EQ(errors.find(other), std::string::npos) << errors;
}

TEST(Job, AnInterruptionIsSaidOnceAndGivesTheSignalsStatus) {
  for (bool asThreads : {false, true}) {
    Job job(
        3,
        [](Communicator &, const RankEnvironment &) -> llvm::Error {
          return llvm::make_error<Interruption>(SIGTERM, "interrupted after step 3");
        },
        20s, asThreads);
    EXPECT_EQ(job.wait(6), 128 + SIGTERM);
    EXPECT_EQ(job.errors(), "error: interrupted after step 3\n");
  }
}

TEST(Job, ASilentStrangerOnThePortIsFoundOut) {
  FileDescriptor stranger = llvm::cantFail(listenOn(0, /*loopbackOnly=*/true));
  std::string port = std::to_string(llvm::cantFail(listeningPort(stranger)));
  Job job(std::nullopt,
          [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); }, 1s, false,
          {{"RANK", "1"},
           {"WORLD_SIZE", "2"},
           {"LOCAL_RANK", "1"},
           {"LOCAL_WORLD_SIZE", "2"},
           {"MASTER_ADDR", "127.0.0.1"},
           {"MASTER_PORT", port}});
  EXPECT_EQ(job.wait(6), kPeerFailureStatus) << job.errors();
  expectContains(job.errors(), "rank 1: error: 127.0.0.1:" + port +
                                   " accepts connections but did not respond as the ranks' "
                                   "rendezvous within 1 s");
}

TEST(Job, ABusyRankIsNamedWithinTheTimeout) {
  Job job(
      2,
      [](Communicator &world, const RankEnvironment &) -> llvm::Error {
        while (world.rank() == 1)
          ::usleep(1000);
        return world.barrier("step 7");
      },
      1s);
  EXPECT_EQ(job.wait(8), kPeerFailureStatus) << job.errors();
  expectContains(job.errors(),
                 "rank 0: error: barrier of step 7, operation 1 of group \"world\", did "
                 "not complete within 1 s: rank 1 has not reached it (it has not started any)");
}

TEST(Job, ARanksErrorEndsAllAndIsTheOneReported) {
  for (bool asThreads : {false, true}) {
    Job job(
        3,
        [](Communicator &world, const RankEnvironment &) -> llvm::Error {
          // All have joined before one fails: losing a rank earlier is another message.
          if (llvm::Error error = world.barrier("start"))
            return error;
          if (world.rank() == 1) {
            letOthersFollow();
            return llvm::createStringError("the loss is NaN at step 3");
          }
          return reduceOnce(world, "gradient \"w\"");
        },
        20s, asThreads);
    EXPECT_EQ(job.wait(6), 1) << job.errors();
    EXPECT_EQ(job.errors(), "rank 1: error: the loss is NaN at step 3\n");
  }
}

TEST(Job, AnExceptionIsAnError) {
  Job job(2, [](Communicator &world, const RankEnvironment &) -> llvm::Error {
    if (world.rank() == 1)
      throw std::runtime_error("no memory");
    return world.barrier("x");
  });
  EXPECT_EQ(job.wait(6), 1);
  expectContains(job.errors(), "rank 1: error: unexpected: no memory\n");
}

TEST(Job, DifferentProgramsAreRefusedOnce) {
  for (bool asThreads : {false, true}) {
    Job job(
        3,
        [](Communicator &world, const RankEnvironment &) {
          ProgramIdentity mine;
          mine.name = "gpt.mlir";
          mine.fingerprint.fill(world.rank() == 2);
          return checkSameProgram(world, mine);
        },
        20s, asThreads);
    EXPECT_EQ(job.wait(6), 1);
    std::string refusal = "error: the ranks were given different programs: gpt.mlir "
                          "(fingerprint 000000000000) on ranks 0, 1; gpt.mlir (fingerprint "
                          "010101010101) on rank 2\n";
    expectContains(job.errors(), refusal);
    EXPECT_EQ(job.errors().find("different", job.errors().find("different") + 1), std::string::npos)
        << job.errors();
  }
}

TEST(Job, RanksUnderALauncherAreRefused) {
  Job job(
      2, [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); }, 20s, false,
      {{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.errors(),
            "error: --ranks=2, but torchrun has already assigned this process rank 1 of "
            "4: omit one of them\n");
}

TEST(Job, BadEnvironmentIsRefused) {
  Job job(std::nullopt,
          [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); }, 20s,
          false, {{"RANK", "1"}});
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.errors(), "error: the environment set by torchrun is not usable: WORLD_SIZE is "
                          "not set, but RANK is: expected all of torchrun's variables or none\n");
}

TEST(Job, BadCountsAndTimeoutsAreRefused) {
  auto nothing = [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); };
  Job zero(0, nothing);
  EXPECT_EQ(zero.wait(), 1);
  EXPECT_EQ(zero.errors(), "error: --ranks=0: expected a number of ranks from 1 to 1024\n");
  Job timeless(2, nothing, 0s);
  EXPECT_EQ(timeless.wait(), 1);
  EXPECT_EQ(timeless.errors(), "error: --timeout: expected more than 0 seconds\n");
}

} // namespace
