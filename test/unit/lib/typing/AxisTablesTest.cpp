//===- AxisTablesTest.cpp - what joins what, as tables -----------------------===//
//
// For each rule the result of every combination of operands. `i` and `r` are an I and an R that
// carry a gradient; an error is written as the letters of its reason.
//
//===----------------------------------------------------------------------===//

#include "test/unit/lib/typing/Rules.h"

#include <gtest/gtest.h>

using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::test;
using dist::AxisPlacement;
using Reason = Conflict::Reason;

static AxisOperand parse(llvm::StringRef text) {
  if (text == "R")
    return {AxisPlacement::replicate()};
  if (text == "I")
    return {AxisPlacement::invariant()};
  if (text == "i")
    return {AxisPlacement::invariant(), true};
  if (text == "r")
    return {AxisPlacement::replicate(), true};
  if (text == "V")
    return {AxisPlacement::varying()};
  if (text == "P")
    return {AxisPlacement::partial()};
  if (text == "max")
    return {AxisPlacement::partial(dist::Reduction::Max)};
  if (text == "avg")
    return {AxisPlacement::partial(dist::Reduction::Avg)};
  int dim = 0;
  EXPECT_FALSE(text.drop_front().getAsInteger(10, dim)) << text.str();
  return {AxisPlacement::shard(dim)};
}

static std::string print(const AxisResult &result) {
  if (auto *conflict = std::get_if<Conflict>(&result)) {
    switch (conflict->reason) {
    case Reason::InvariantMixed:
      return "im";
    case Reason::PartialPlusWhole:
      return "p+";
    case Reason::PartialProduct:
      return "pp";
    case Reason::PartialNonlinear:
      return "pn";
    case Reason::PartialMoved:
      return "pm";
    case Reason::PartialMixed:
      return "px";
    case Reason::PartialVarying:
      return "pv";
    case Reason::ShardWhole:
      return "sw";
    case Reason::ShardUnlike:
      return "su";
    case Reason::ShardCrossed:
      return "sc";
    case Reason::ShardInner:
      return "si";
    case Reason::PartialAddend:
      return "pa";
    case Reason::OrderUnlike:
      return "so";
    }
  }
  std::string text;
  for (const AxisChoice &choice : std::get<0>(result)) {
    AxisPlacement placement = choice.results.front();
    if (!text.empty())
      text.append("|");
    if (placement.isShard())
      text.append("S").append(std::to_string(placement.dim));
    else if (placement.isPartial() && !placement.isPartialSum())
      text += dist::stringifyReduction(placement.reduction).str();
    else
      text += toString(placement);
  }
  return text;
}

static std::vector<std::string> split(llvm::StringRef line) {
  llvm::SmallVector<llvm::StringRef> words;
  line.split(words, ' ', -1, /*KeepEmpty=*/false);
  return {words.begin(), words.end()};
}

/// The first line names the second operand's placements; each other line starts with the first
/// operand's.
static void expectTable(const ShardingRule &rule, llvm::StringRef table) {
  llvm::SmallVector<llvm::StringRef> lines;
  table.trim().split(lines, '\n');
  std::vector<std::string> columns = split(lines.front());
  for (llvm::StringRef line : llvm::drop_begin(lines)) {
    std::vector<std::string> cells = split(line);
    ASSERT_EQ(cells.size(), columns.size() + 1) << line.str();
    for (size_t i = 0; i < columns.size(); ++i)
      EXPECT_EQ(print(inferAxis(rule, {parse(cells[0]), parse(columns[i])})), cells[i + 1])
          << cells[0] << " with " << columns[i];
  }
}

static void expectUnary(const ShardingRule &rule, llvm::StringRef operands,
                        llvm::StringRef results) {
  std::vector<std::string> from = split(operands), to = split(results);
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i)
    EXPECT_EQ(print(inferAxis(rule, {parse(from[i])})), to[i]) << from[i];
}

TEST(AxisTables, Sum) {
  expectTable(addRule(), R"(
      R   I   r  i  V  P  S0 S1 max
  R   R   R|I R  I  V  p+ su su p+
  I   R|I I   R  I  V  p+ su su p+
  r   R   R   R  im V  p+ su su p+
  i   I   I   im I  im im im im im
  V   V   V   V  im V  pv V  V  pv
  P   p+  p+  p+ im pv P  pv pv px
  S0  su  su  su im V  pv S0 sc pv
  S1  su  su  su im V  pv sc S1 pv
  max p+  p+  p+ im pv px pv pv pm)");
}

TEST(AxisTables, Product) {
  expectTable(mulRule(), R"(
      R   I   i  V  P  S0 S1
  R   R   R|I I  V  P  su su
  I   R|I I   I  V  P  su su
  i   I   I   I  im im im im
  V   V  V  im V  pv V  V
  P   P  P  im pv pp pv pv
  S0  su su im V  pv S0 sc
  S1  su su im V  pv sc S1)");
}

TEST(AxisTables, Quotient) {
  expectTable(divRule(), R"(
      R  I   i  V  P  S0
  R   R  R|I I  V  pn su
  P   P  P  im pv pn pv)");
}

TEST(AxisTables, MatrixProduct) {
  expectTable(mmRule(), R"(
      R   I   i  V  P  S0 S1
  R   R   R|I I  V  P  su S1
  I   R|I I   I  V  P  su S1
  i   I   I   I  im im im im
  V   V  V  im V  pv V  V
  P   P  P  im pv pp pv pv
  S0  S0 S0 im V  pv sc sc
  S1  su su im V  pv P  sc)");
}

TEST(AxisTables, BroadcastRow) {
  expectTable(addRowRule(), R"(
      R  P  S0
  R   R  p+ su
  P   p+ P  pv
  S0  S0 pv sc
  S1  su pv S1)");
}

TEST(AxisTables, OneOperand) {
  expectUnary(unaryRule(true), "R I i V P S0 S1 max", "R I I V P S0 S1 pm");
  expectUnary(unaryRule(false), "R I i V P S0 S1 max", "R I I V pn S0 S1 pn");
  expectUnary(reduceRule(sharding::FactorReduction::Sum), "R I V P S0 S1 avg", "R I V P P S0 pm");
  expectUnary(reduceRule(sharding::FactorReduction::Avg), "P S0 S1", "P avg S0");
  expectUnary(reduceRule(sharding::FactorReduction::Max), "P S0 S1", "pn max S0");
  expectUnary(transposeRule(), "R P S0 S1 max avg", "R P S1 S0 max avg");
  expectUnary(flattenRule(), "R P S0 S1 max", "R P S0 si max");
  expectUnary(unflattenRule(), "R P S0 max", "R P S0 max");
}

// The bias of a row-parallel layer: mat1 S(1), mat2 S(0).
TEST(AxisTables, BiasOfPartialProduct) {
  auto infer = [](llvm::StringRef bias, llvm::StringRef a, llvm::StringRef b) {
    return print(inferAxis(addmmRule(), {parse(bias), parse(a), parse(b)}));
  };
  EXPECT_EQ(infer("R", "S1", "S0"), "pa");
  EXPECT_EQ(infer("I", "S1", "S0"), "pa");
  EXPECT_EQ(infer("P", "S1", "S0"), "P");
  EXPECT_EQ(infer("max", "S1", "S0"), "pv");
  EXPECT_EQ(infer("R", "P", "R"), "p+");
  EXPECT_EQ(infer("P", "P", "R"), "P");
  EXPECT_EQ(infer("P", "R", "P"), "P");
  EXPECT_EQ(infer("P", "P", "P"), "pp");
  EXPECT_EQ(infer("P", "R", "R"), "p+");
  EXPECT_EQ(infer("R", "S0", "R"), "S0");
  EXPECT_EQ(infer("S0", "R", "S1"), "S1");
  EXPECT_EQ(infer("R", "R", "S1"), "su");
}

TEST(AxisTables, WholeDimension) {
  ShardingRule rule = unaryRule(false);
  rule.factors[1].wholeReason = "it is normalized";
  expectUnary(rule, "S0 S1 R V", "S0 sw R V");
  AxisResult result = inferAxis(rule, {parse("S1")});
  EXPECT_EQ(std::get<Conflict>(result).factor, 1u);
}

TEST(AxisTables, Constants) {
  ShardingRule rule = makeRule(1, kSize, {}, {{{0}}});
  rule.kind = sharding::OpKind::Factory;
  EXPECT_EQ(print(inferAxis(rule, {})), "I|R");
  // zeros_like: the shape may be that of a shard.
  rule = makeRule(1, kSize, {{{0}}}, {{{0}}});
  rule.kind = sharding::OpKind::Factory;
  rule.shapeOnly = {0};
  expectUnary(rule, "R I V P S0", "I|R I|R I|R I|R S0|I|R");
}

TEST(AxisTables, ShapeOnlyOperandSaysWhatIsSharded) {
  ShardingRule rule = addRule();
  rule.linear = {group({0})};
  rule.shapeOnly = {1};
  expectTable(rule, R"(
      R  i  V  P  S0
  R   R  R  R  R  su
  P   P  P  P  P  pv
  S0  S0 S0 S0 S0 S0)");
  rule.kind = sharding::OpKind::Random;
  expectTable(rule, R"(
      R  i  V  P  S0
  R   R  R  R  R  R
  S0  S0 S0 S0 S0 S0)");
}

TEST(AxisTables, ResultsThatDoNotDependOnThePartialOperand) {
  ShardingRule rule = makeRule(1, kSize, {{{0}}, {{0}}}, {{{0}}, {{0}}});
  rule.linear = {group({1})};
  AxisResult result = inferAxis(rule, {parse("R"), parse("P")});
  ASSERT_EQ(result.index(), 0u);
  EXPECT_EQ(std::get<0>(result).front().results[0], AxisPlacement::partial());
  EXPECT_EQ(std::get<0>(result).front().results[1], AxisPlacement::replicate());
}

// Locally a dimension of size 1 may be a shard: a view of it leaves a choice.
TEST(AxisTables, ShardOfSizeOne) {
  ShardingRule rule = unflattenRule();
  rule.factors[0].size = 1;
  expectUnary(rule, "S0", "S1|S0");
  ShardingRule merge = flattenRule();
  merge.factors[0].size = 1;
  expectUnary(merge, "S0 S1", "S0 S0");
  // What is one and whole is broadcast to the shards.
  ShardingRule add = addRule();
  add.factors[0].size = 1;
  expectTable(add, R"(
      R  S0 S1
  S0  S0 S0 sc
  S1  su sc S1)");
}

TEST(AxisTables, AnythingThatIsNoTensorIsPassedOver) {
  EXPECT_EQ(print(inferAxis(addRule(), {parse("S0"), AxisOperand{}})), "S0");
}
