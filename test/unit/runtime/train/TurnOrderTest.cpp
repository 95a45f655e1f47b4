//===- TurnOrderTest.cpp - which of a run's programs a step is of ---------===//

#include "runtime/train/TurnOrder.h"

#include "gtest/gtest.h"

using namespace cleave::runtime;

namespace {

OtherProgram parse(llvm::StringRef text) {
  return llvm::cantFail(parseOtherProgram(text));
}

std::string parseError(llvm::StringRef text) {
  llvm::Expected<OtherProgram> parsed = parseOtherProgram(text);
  return parsed ? "" : llvm::toString(parsed.takeError());
}

TurnOrder order(std::vector<OtherProgram> others, std::vector<uint64_t> steps = {},
                bool shuffle = true) {
  return llvm::cantFail(TurnOrder::create(others, steps, shuffle, /*seed=*/3));
}

std::string orderError(std::vector<OtherProgram> others, std::vector<uint64_t> steps = {}) {
  llvm::Expected<TurnOrder> made = TurnOrder::create(others, steps, true, 0);
  return made ? "" : llvm::toString(made.takeError());
}

/// `turnsBefore` counts what `programOf` gives.
void expectCounts(const TurnOrder &order, size_t programs, int64_t steps) {
  std::vector<int64_t> turns(programs);
  for (int64_t step = 1; step <= steps; ++step) {
    ASSERT_EQ(order.turnsBefore(step), turns) << step;
    ++turns[order.programOf(step)];
  }
}

TEST(OtherProgram, PathsAndSourcesMayHaveSpacesAndSigns) {
  OtherProgram program = parse("my runs/a=b.mlir from=12 data=mix:0.5=text:a b.txt;0.5=u16:c "
                               "microbatches=4");
  EXPECT_EQ(program.path, "my runs/a=b.mlir");
  EXPECT_EQ(program.from, 12);
  EXPECT_EQ(program.data, "mix:0.5=text:a b.txt;0.5=u16:c");
  EXPECT_EQ(program.microbatches, 4);
  EXPECT_FALSE(program.share || program.batch);
  EXPECT_EQ(parse("a.mlir").path, "a.mlir");
  EXPECT_EQ(parse("a.mlir share=0.25 batch=8").share, 0.25);
}

TEST(OtherProgram, Errors) {
  EXPECT_NE(parseError("").find("expected a program"), std::string::npos);
  EXPECT_NE(parseError(" from=3").find("expected a program"), std::string::npos);
  EXPECT_NE(parseError("a from=1").find("a step after the first, found \"1\""), std::string::npos);
  EXPECT_NE(parseError("a from=x").find("found \"x\""), std::string::npos);
  EXPECT_NE(parseError("a from=2 share=0.5").find("found both"), std::string::npos);
  EXPECT_NE(parseError("a from=2 from=3").find("from= twice"), std::string::npos);
  for (const char *share : {"0", "1", "-0.5", "nan", "x", ""})
    EXPECT_NE(parseError(("a share=" + llvm::Twine(share)).str()).find("expected share="),
              std::string::npos)
        << share;
  EXPECT_NE(parseError("a data=").find("expected data=SOURCE"), std::string::npos);
  EXPECT_NE(parseError("a microbatches=0").find("at least 1"), std::string::npos);
}

TEST(TurnOrder, OneProgramTakesAllSteps) {
  TurnOrder alone;
  EXPECT_EQ(alone.programOf(1), 0u);
  EXPECT_EQ(alone.programOf(int64_t(1) << 40), 0u);
  EXPECT_EQ(alone.turnsBefore(8), std::vector<int64_t>{7});
}

TEST(TurnOrder, ProgramsFollowOneAnother) {
  TurnOrder growing = order({parse("a from=4"), parse("b from=6")});
  std::vector<size_t> found;
  for (int64_t step = 1; step <= 8; ++step)
    found.push_back(growing.programOf(step));
  EXPECT_EQ(found, (std::vector<size_t>{0, 0, 0, 1, 1, 2, 2, 2}));
  expectCounts(growing, 3, 10);
  EXPECT_NE(orderError({parse("a from=6"), parse("b from=6")}).find("a step after 6"),
            std::string::npos);
}

TEST(TurnOrder, SharesAreThoseOfABlock) {
  TurnOrder mixed = order({parse("a share=0.25"), parse("b share=0.05")});
  EXPECT_EQ(mixed.turnsBefore(1001), (std::vector<int64_t>{700, 250, 50}));
  EXPECT_EQ(mixed.turnsBefore(2001), (std::vector<int64_t>{1400, 500, 100}));
  expectCounts(mixed, 3, 1100);
  // Not all of one program's turns come first.
  std::vector<int64_t> early = mixed.turnsBefore(201);
  EXPECT_GT(early[0], 100);
  EXPECT_GT(early[1], 20);
  EXPECT_NE(orderError({parse("a share=0.6"), parse("b share=0.4")}).find("0.60 + 0.40 in sum"),
            std::string::npos);
}

TEST(TurnOrder, OtherwiseDataSays) {
  TurnOrder buckets = order({parse("a"), parse("b")}, {3, 5, 2});
  EXPECT_EQ(buckets.turnsBefore(11), (std::vector<int64_t>{3, 5, 2}));
  EXPECT_EQ(buckets.turnsBefore(21), (std::vector<int64_t>{6, 10, 4}));
  expectCounts(buckets, 3, 35);
  TurnOrder inOrder = order({parse("a")}, {2, 1}, /*shuffle=*/false);
  std::vector<size_t> found;
  for (int64_t step = 1; step <= 6; ++step)
    found.push_back(inOrder.programOf(step));
  EXPECT_EQ(found, (std::vector<size_t>{0, 0, 1, 0, 0, 1}));
  EXPECT_NE(orderError({parse("a")}, {2, 0}).find("found less for a"), std::string::npos);
}

TEST(TurnOrder, OneRuleForAll) {
  EXPECT_NE(orderError({parse("a share=0.1"), parse("b from=4")}).find("a and b to differ"),
            std::string::npos);
  EXPECT_NE(orderError({parse("a"), parse("b from=4")}, {1, 1, 1}).find("differ"),
            std::string::npos);
}

} // namespace
