//===- LocalLauncherTest.cpp - Ranks that are forks, and their supervisor -===//

#include "test/unit/runtime/launch/Processes.h"

#include "runtime/launch/LocalLauncher.h"

#include "gtest/gtest.h"

#include <csignal>

#include <unistd.h>

using namespace cleave::runtime;
using namespace cleave::runtime::test;
using namespace std::chrono_literals;

namespace {

/// A process that supervises `ranks` ranks.
struct Supervised : Process {
  Supervised(int ranks, const RankMain &rankMain, std::chrono::milliseconds grace = 1s)
      : Process({}, [&] {
          LocalLaunchOptions options;
          options.ranks = ranks;
          options.grace = grace;
          llvm::Expected<int> status = launchProcesses(options, rankMain);
          if (status)
            return *status;
          llvm::errs() << llvm::toString(status.takeError()) << "\n";
          return 99;
        }) {}
};

int sleepForever() {
  for (;;)
    ::pause();
}

/// The numbers of the processes that wrote "pid N" as output.
std::vector<pid_t> writtenPids(const std::string &output) {
  std::vector<pid_t> pids;
  for (size_t at = 0; (at = output.find("pid ", at)) != std::string::npos; at += 4)
    pids.push_back(std::stoi(output.substr(at + 4)));
  return pids;
}

void expectGone(const std::vector<pid_t> &pids) {
  for (pid_t pid : pids) {
    for (int attempt = 0; attempt < 200 && exists(pid); ++attempt)
      ::usleep(10000);
    EXPECT_FALSE(exists(pid)) << pid;
  }
}

TEST(LocalLauncher, EachRankKnowsItsPlace) {
  Supervised job(3, [](const RankEnvironment &env) {
    say(std::to_string(env.rank) + "/" + std::to_string(env.size) + " " +
        std::to_string(env.localRank) + "/" + std::to_string(env.localSize));
    return env.rendezvous.oneMachine && env.rendezvous.port ? 0 : 1;
  });
  EXPECT_EQ(job.wait(), 0) << job.errors();
  std::string output = job.output();
  EXPECT_NE(output.find("0/3 0/3\n"), std::string::npos) << output;
  EXPECT_NE(output.find("rank 1: 1/3 1/3\n"), std::string::npos) << output;
  EXPECT_NE(output.find("rank 2: 2/3 2/3\n"), std::string::npos) << output;
}

TEST(LocalLauncher, EveryLineOfAnotherRankIsPrefixed) {
  Supervised job(2, [](const RankEnvironment &env) {
    std::string text = "first\nsecond\nunfinished";
    (void)!::write(STDERR_FILENO, text.data(), text.size());
    return 0;
  });
  EXPECT_EQ(job.wait(), 0);
  std::string errors = job.errors();
  size_t other = errors.find("rank 1: first\nrank 1: second\nrank 1: unfinished\n");
  ASSERT_NE(other, std::string::npos) << errors;
  // Rank 0's output is the caller's own, untouched.
  errors.erase(other, std::string("rank 1: first\nrank 1: second\nrank 1: unfinished\n").size());
  EXPECT_EQ(errors, "first\nsecond\nunfinished");
}

TEST(LocalLauncher, MuchOutputDoesNotBlock) {
  Supervised job(2, [](const RankEnvironment &env) {
    for (int line = 0; env.rank == 1 && line < 20000; ++line)
      say("line " + std::to_string(line));
    return 0;
  });
  EXPECT_EQ(job.wait(), 0);
  EXPECT_NE(job.output().find("rank 1: line 19999\n"), std::string::npos);
}

TEST(LocalLauncher, AKilledRankIsNamedAndNobodyIsLeft) {
  Supervised job(4, [](const RankEnvironment &env) {
    say("pid " + std::to_string(::getpid()));
    if (env.rank == 2) {
      ::usleep(200000);
      ::raise(SIGKILL);
    }
    return sleepForever();
  });
  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  EXPECT_EQ(job.errors(), "error: rank 2 was killed by signal 9 (Killed); stopped ranks 0, 1, 3, "
                          "still running\n");
  std::vector<pid_t> pids = writtenPids(job.output());
  EXPECT_EQ(pids.size(), 4u);
  expectGone(pids);
}

TEST(LocalLauncher, ExitStatusIsTheFirstFailures) {
  Supervised job(3, [](const RankEnvironment &env) {
    if (env.rank == 1)
      return 3;
    ::usleep(100000);
    return kPeerFailureStatus;
  });
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(job.errors(), "error: rank 1 exited with status 3\n");
}

TEST(LocalLauncher, AVictimIsNotTheCauseThoughItEndsFirst) {
  Supervised job(2, [](const RankEnvironment &env) {
    if (env.rank == 0)
      return kPeerFailureStatus;
    ::usleep(200000);
    return 4;
  });
  EXPECT_EQ(job.wait(), 4);
  EXPECT_EQ(job.errors(), "error: rank 1 exited with status 4\n");
}

TEST(LocalLauncher, StoppedAndDeafRanksAreKilled) {
  Supervised job(
      3,
      [](const RankEnvironment &env) {
        say("pid " + std::to_string(::getpid()));
        if (env.rank == 1)
          ::raise(SIGSTOP);
        if (env.rank == 2)
          ::signal(SIGTERM, SIG_IGN);
        if (env.rank == 0) {
          ::usleep(200000);
          return kPeerFailureStatus;
        }
        return sleepForever();
      },
      200ms);
  EXPECT_EQ(job.wait(5), kPeerFailureStatus);
  EXPECT_EQ(job.errors(), "error: the ranks stopped waiting for each other; stopped ranks 1, 2, "
                          "still running\n");
  expectGone(writtenPids(job.output()));
}

TEST(LocalLauncher, SignalsReachTheRanks) {
  Supervised job(2, [](const RankEnvironment &env) {
    say("pid " + std::to_string(::getpid()));
    return sleepForever();
  });
  while (writtenPids(job.output()).size() < 2)
    ::usleep(5000);
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(5), 128 + SIGTERM);
  EXPECT_EQ(job.errors(), "error: interrupted by signal 15 (Terminated)\n");
  expectGone(writtenPids(job.output()));
}

TEST(LocalLauncher, ARankMayFinishOnASignal) {
  Supervised job(2, [](const RankEnvironment &env) {
    static volatile sig_atomic_t asked = 0;
    ::signal(SIGINT, [](int) { asked = 1; });
    say("ready");
    while (!asked)
      ::usleep(5000);
    say("checkpoint written");
    return 0;
  });
  ASSERT_TRUE(job.waitForOutput("rank 1: ready"));
  while (job.output().find("ready") == job.output().rfind("ready"))
    ::usleep(5000);
  job.signal(SIGINT);
  EXPECT_EQ(job.wait(5), 0) << job.errors();
}

TEST(LocalLauncher, RanksDoNotOutliveTheirSupervisor) {
  Supervised job(3, [](const RankEnvironment &env) {
    say("pid " + std::to_string(::getpid()));
    return sleepForever();
  });
  std::vector<pid_t> pids;
  while ((pids = writtenPids(job.output())).size() < 3)
    ::usleep(5000);
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(5), 128 + SIGKILL);
  expectGone(pids);
}

TEST(LocalLauncher, NeedsAProcessWithOneThread) {
  Process job({}, [] {
    std::thread other(sleepForever);
    other.detach();
    LocalLaunchOptions options;
    options.ranks = 2;
    llvm::Expected<int> status =
        launchProcesses(options, [](const RankEnvironment &) { return 0; });
    llvm::errs() << llvm::toString(status.takeError());
    return 1;
  });
  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.errors(), "cannot start ranks: this process already has 2 threads");
}

TEST(LocalLauncher, CountsOutOfRangeAreRefused) {
  for (int ranks : {0, -1, 100000}) {
    LocalLaunchOptions options;
    options.ranks = ranks;
    for (auto launch : {launchProcesses, launchThreads}) {
      llvm::Expected<int> status = launch(options, [](const RankEnvironment &) { return 0; });
      EXPECT_EQ(llvm::toString(status.takeError()),
                "--ranks=" + std::to_string(ranks) + ": expected a number of ranks from 1 to 1024");
    }
  }
}

} // namespace
