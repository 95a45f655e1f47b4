//===- LauncherEnvironmentTest.cpp - Ranks without a supervisor ---------===//
//
// Processes with the environments of torchrun, mpirun and srun: without a supervisor, the ranks
// themselves must find out who is lost and end.
//
//===----------------------------------------------------------------------===//

#include "test/unit/runtime/comm/RankChecks.h"
#include "test/unit/runtime/launch/Processes.h"

#include "runtime/comm/Socket.h"
#include "runtime/launch/Job.h"

#include "gtest/gtest.h"

#include <csignal>
#include <memory>

#include <unistd.h>

using namespace cleave::runtime;
using namespace cleave::runtime::test;
using namespace std::chrono_literals;

namespace {

using Variables = std::map<std::string, std::string>;

std::string freePort() {
  auto socket = llvm::cantFail(listenOn(0, true));
  return std::to_string(llvm::cantFail(listeningPort(socket)));
}

Variables torchrun(int rank, int size, const std::string &port) {
  return {{"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "localhost"},         {"MASTER_PORT", port}};
}

/// Not on one machine, as far as it is told: the general interface is used.
Variables slurm(int rank, int size, const std::string &port) {
  return {{"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_NTASKS", std::to_string(size)},
          {"SLURM_LOCALID", std::to_string(rank)},
          {"SLURM_JOB_NODELIST", "localhost,elsewhere"},
          {"MASTER_PORT", port}};
}

Variables openMpi(int rank, int size, const std::string &port) {
  return {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
          {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(size)},
          {"MASTER_PORT", port}};
}

using Launch = Variables (*)(int rank, int size, const std::string &port);

std::vector<std::unique_ptr<Process>> start(Launch launch, int size, const JobBody &body,
                                            std::chrono::milliseconds timeout = 20s) {
  std::string port = freePort();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_unique<Process>(launch(rank, size, port), [&] {
      JobOptions options;
      options.timeout = timeout;
      return runJob(options, body);
    }));
  return ranks;
}

void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
}

class EveryLauncher : public testing::TestWithParam<Launch> {};

TEST_P(EveryLauncher, AllOperations) {
  auto ranks = start(GetParam(), 2, [](Communicator &world, const RankEnvironment &) {
    return checkEverything(world);
  });
  for (auto &rank : ranks) {
    EXPECT_EQ(rank->wait(), 0);
    EXPECT_EQ(rank->errors(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Environments, EveryLauncher, testing::Values(torchrun, slurm, openMpi));

TEST(Unsupervised, SurvivorsOfAKilledRankEndAtOnceAndNameIt) {
  for (int lost : {0, 1}) {
    auto ranks =
        start(torchrun, 3, [lost](Communicator &world, const RankEnvironment &) -> llvm::Error {
          if (llvm::Error error = reduceOnce(world, "the first gradient"))
            return error;
          if (world.rank() == lost) {
            letOthersFollow();
            ::raise(SIGKILL);
          }
          return reduceOnce(world, "gradient \"w\"");
        });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ranks[rank]->wait(4), rank == lost ? 128 + SIGKILL : kPeerFailureStatus);
      if (rank != lost)
        expectContains(ranks[rank]->errors(),
                       "rank " + std::to_string(rank) +
                           ": error: all_reduce of gradient \"w\", operation 2 of group \"world\", "
                           "cannot complete: rank " +
                           std::to_string(lost) + " is lost: its process has ended");
    }
  }
}

TEST(Unsupervised, AStoppedRankIsNamedWithinTheTimeout) {
  for (int stopped : {0, 1}) {
    auto ranks = start(
        torchrun, 3,
        [stopped](Communicator &world, const RankEnvironment &) -> llvm::Error {
          if (llvm::Error error = reduceOnce(world, "the first gradient"))
            return error;
          if (world.rank() == stopped) {
            letOthersFollow();
            ::raise(SIGSTOP);
          }
          return reduceOnce(world, "gradient \"w\"");
        },
        1500ms);
    std::string errors;
    for (int rank = 0; rank < 3; ++rank)
      if (rank != stopped) {
        EXPECT_EQ(ranks[rank]->wait(6), kPeerFailureStatus);
        errors += ranks[rank]->errors();
      }
    expectContains(errors, "rank " + std::to_string(stopped) + " does not respond");
  }
}

TEST(Unsupervised, ABusyRankEndsItselfAfterALoss) {
  auto ranks = start(
      torchrun, 2,
      [](Communicator &world, const RankEnvironment &) -> llvm::Error {
        if (llvm::Error error = reduceOnce(world, "the first gradient"))
          return error;
        if (world.rank() == 0) {
          letOthersFollow();
          ::raise(SIGKILL);
        }
        for (;;)
          ::usleep(1000);
      },
      500ms);
  EXPECT_EQ(ranks[1]->wait(8), kPeerFailureStatus);
  expectContains(ranks[1]->errors(), "rank 1: error: rank 0 is lost: its process has ended or is "
                                     "unreachable; this rank was busy and is terminated");
}

TEST(Unsupervised, ARankThatNeverStartsIsNamed) {
  std::string port = freePort();
  JobOptions options;
  options.timeout = 1s;
  Process only(torchrun(0, 3, port), [&] {
    return runJob(options,
                  [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); });
  });
  EXPECT_EQ(only.wait(5), kPeerFailureStatus);
  EXPECT_EQ(only.errors(), "rank 0: error: ranks 1, 2 of 3 did not join within 1 s\n");
}

/// Two processes that were told different things; their errors.
std::vector<std::string> startDisagreeing(const Variables &first, const Variables &second) {
  std::string port = freePort();
  std::vector<std::unique_ptr<Process>> ranks;
  for (const Variables &changes : {first, second}) {
    Variables variables = torchrun(0, 2, port);
    for (const auto &[name, value] : changes)
      variables[name] = value;
    ranks.push_back(std::make_unique<Process>(variables, [] {
      JobOptions options;
      options.timeout = 20s;
      return runJob(options,
                    [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); });
    }));
  }
  std::vector<std::string> errors;
  for (auto &rank : ranks) {
    EXPECT_NE(rank->wait(8), 0);
    errors.push_back(rank->errors());
  }
  return errors;
}

TEST(Unsupervised, RanksThatWereToldDifferentSizesEndAtOnce) {
  std::vector<std::string> errors = startDisagreeing(
      {}, {{"RANK", "1"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_WORLD_SIZE", "3"}});
  // Whichever joined second finds it; rank 0 says it in any case.
  expectContains(errors[0], "WORLD_SIZE=");
  expectContains(errors[0], "on the one that joined first: expected the same number on all ranks");
}

TEST(Unsupervised, RanksWithOneNumberEndAtOnce) {
  // As where every node was given RANK=1.
  std::string port = freePort();
  std::vector<std::unique_ptr<Process>> ranks;
  for (const char *rank : {"0", "1", "1"}) {
    Variables variables = torchrun(0, 3, port);
    variables["RANK"] = variables["LOCAL_RANK"] = rank;
    ranks.push_back(std::make_unique<Process>(variables, [] {
      JobOptions options;
      options.timeout = 20s;
      return runJob(options,
                    [](Communicator &, const RankEnvironment &) { return llvm::Error::success(); });
    }));
  }
  for (auto &rank : ranks)
    EXPECT_NE(rank->wait(8), 0) << rank->errors();
  expectContains(ranks[0]->errors(),
                 "RANK=1 in two processes: expected a different number in each, "
                 "from 0 to 2");
}

} // namespace
