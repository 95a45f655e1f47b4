//===- SameProgramTest.cpp - Ranks with different programs are refused ----===//

#include "ThreadRanks.h"

#include "runtime/comm/Failure.h"
#include "runtime/comm/SameProgram.h"

#include "gtest/gtest.h"

using namespace cleave::runtime;
using namespace cleave::runtime::test;
using namespace std::chrono_literals;

namespace {

ProgramIdentity identity(uint8_t byte, std::string microbatches = "4") {
  ProgramIdentity identity;
  identity.name = byte ? "other.mlir" : "gpt.mlir";
  identity.fingerprint.fill(byte);
  identity.mustAgree = {{"--microbatches", microbatches}, {"--seed", "1"}};
  return identity;
}

std::string compare(std::vector<ProgramIdentity> identities) {
  llvm::Error error = compareIdentities(identities);
  return error ? llvm::toString(std::move(error)) : "";
}

TEST(SameProgram, EqualOnesAreAccepted) {
  EXPECT_EQ(compare({identity(0), identity(0), identity(0)}), "");
}

TEST(SameProgram, DifferentProgramsAreNamed) {
  EXPECT_EQ(compare({identity(0), identity(0), identity(7), identity(0)}),
            "the ranks were given different programs: gpt.mlir (fingerprint 000000000000) on "
            "ranks 0, 1, 3; other.mlir (fingerprint 070707070707) on rank 2");
}

TEST(SameProgram, DifferentOptionsAreNamed) {
  EXPECT_EQ(compare({identity(0, "4"), identity(0, "8")}),
            "the ranks were started with different values of --microbatches: 4 on rank 0; 8 on "
            "rank 1");
}

TEST(SameProgram, AnOptionThatOneRankLacksDiffers) {
  ProgramIdentity without = identity(0);
  without.mustAgree.pop_back();
  EXPECT_EQ(compare({without, identity(0)}),
            "the ranks were started with different values of --seed: not given on rank 0; 1 on "
            "rank 1");
}

TEST(SameProgram, EveryRankGetsTheSameRefusal) {
  auto outcomes = runThreadRanks(3, 20s, [](Communicator &world) -> llvm::Error {
    ProgramIdentity mine = identity(0, world.rank() == 1 ? "16" : "4");
    llvm::Error error = checkSameProgram(world, mine);
    EXPECT_TRUE(error.isA<CollectiveRefusal>());
    EXPECT_EQ(llvm::toString(std::move(error)),
              "the ranks were started with different values of --microbatches: 4 on ranks 0, 2; 16 "
              "on rank 1");
    return world.finish();
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
}

TEST(SameProgram, AgreeingRanksGoOn) {
  auto outcomes = runThreadRanks(2, 20s, [](Communicator &world) -> llvm::Error {
    if (llvm::Error error = checkSameProgram(world, identity(3)))
      return error;
    return world.finish();
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
}

} // namespace
