//===- SameProgramTest.cpp - Ranks with different programs are refused ----===//

#include "test/unit/runtime/comm/ThreadRanks.h"

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

using enum EnvironmentFact::Weight;

ProgramIdentity on(std::string host, std::vector<EnvironmentFact> facts) {
  ProgramIdentity result = identity(0);
  result.host = host;
  result.environment = facts;
  return result;
}

TEST(Environment, VersionsMustAgree) {
  EnvironmentFact ours{"LibTorch", "2.11.0+cu130", Required};
  EnvironmentFact theirs{"LibTorch", "2.11.0+cpu", Required};
  EXPECT_EQ(compare({on("a", {ours}), on("a", {ours})}), "");
  EXPECT_EQ(compare({on("a", {ours}), on("a", {theirs}), on("a", {ours})}),
            "the ranks' environments differ, expected the same on all: LibTorch: 2.11.0+cu130 on "
            "ranks 0, 2; 2.11.0+cpu on rank 1");
}

TEST(Environment, HostsAreNamedWhereThereAreSeveral) {
  EnvironmentFact ours{"communication library", "NCCL 2.28.9", Required};
  EXPECT_EQ(compare({on("a", {ours}), on("a", {ours}), on("b", {}), on("c", {})}),
            "the ranks' environments differ, expected the same on all: communication library: NCCL "
            "2.28.9 on ranks 0, 1 (a); none on ranks 2, 3 (b, c)");
}

TEST(Environment, AnotherVersionExplainsAnotherProgram) {
  ProgramIdentity theirs = on("a", {{"Cleave", "0.2.0", Required}});
  theirs.fingerprint.fill(7);
  EXPECT_EQ(
      compare({on("a", {{"Cleave", "0.1.0", Required}}), theirs}),
      "the ranks' environments differ, expected the same on all: Cleave: 0.1.0 on rank 0; 0.2.0 "
      "on rank 1");
}

TEST(Environment, WhatDecidesBitsIsNotedUnlessBitsAreCompared) {
  ProgramIdentity ours = on("a", {{"chip", "sm_90", DecidesBits}, {"driver", "13.0", Informs}});
  ProgramIdentity theirs = on("b", {{"chip", "sm_80", DecidesBits}, {"driver", "13.1", Informs}});
  std::vector<std::string> notes;
  llvm::Error error = compareIdentities({ours, theirs}, &notes);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  EXPECT_EQ(notes, (std::vector<std::string>{
                       "the ranks' environments differ, so replicated results may differ in their "
                       "last bits: chip: sm_90 on rank 0 (a); sm_80 on rank 1 (b)",
                       "the ranks' environments differ: driver: 13.0 on rank 0 (a); 13.1 on rank 1 "
                       "(b)"}));
  ours.needsEqualBits = theirs.needsEqualBits = true;
  EXPECT_EQ(compare({ours, theirs}),
            "the ranks' environments differ, so --check replicated would report differences that "
            "are not errors: chip: sm_90 on rank 0 (a); sm_80 on rank 1 (b)");
}

TEST(Environment, GoesToAllRanks) {
  auto outcomes = runThreadRanks(3, 20s, [](Communicator &world) -> llvm::Error {
    std::vector<std::string> notes;
    const char *threads = world.rank() == 2 ? "8" : "4";
    llvm::Error error = checkSameProgram(
        world, on("a", {{"threads", threads, DecidesBits}, {"x", "", Required}}), &notes);
    EXPECT_FALSE(bool(error));
    EXPECT_EQ(notes, std::vector<std::string>{
                         "the ranks' environments differ, so replicated results may differ in "
                         "their last bits: threads: 4 on ranks 0, 1; 8 on rank 2"});
    if (error)
      return error;
    return world.finish();
  });
  for (const Outcome &outcome : outcomes)
    EXPECT_FALSE(outcome.failed) << outcome.message;
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
