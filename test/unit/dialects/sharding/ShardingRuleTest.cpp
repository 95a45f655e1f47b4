//===- ShardingRuleTest.cpp - queries of sharding rules, and their checks ------===//

#include "test/unit/dialects/sharding/Fixture.h"

using namespace cleave;
using namespace cleave::sharding;

namespace {

TEST_F(ShardingTest, LeadingFactorsStopBehindTheFirstLargerOne) {
  ShardingRule rule;
  for (int64_t size : {1, 1, 4, 2})
    rule.factors.emplace_back().size = size;
  EXPECT_EQ(rule.leadingFactors({0, 1, 2, 3}).size(), 3u);
  EXPECT_EQ(rule.leadingFactors({2, 3}).size(), 1u);
  EXPECT_EQ(rule.leadingFactors({0, 1}).size(), 2u);
  EXPECT_TRUE(rule.leadingFactors({}).empty());

  TensorFactors tensor = {{2, 3}, {0}};
  EXPECT_EQ(rule.leadingDim(tensor, 2), 0u);
  EXPECT_EQ(rule.leadingDim(tensor, 0), 1u);
  EXPECT_EQ(rule.leadingDim(tensor, 3), std::nullopt); // minor
  EXPECT_EQ(rule.leadingDim(tensor, 1), std::nullopt); // absent
  EXPECT_TRUE(ShardingRule::contains(tensor, 3));
  EXPECT_FALSE(ShardingRule::contains(tensor, 1));
}

TEST_F(ShardingTest, LinearGroupsMatchExactly) {
  ShardingRule rule;
  rule.operands.resize(4);
  rule.linear = {{{0, 1}, {0}, false}, {{0, 2}, {0}, true}};
  rule.shapeOnly = {3};
  auto find = [&](llvm::ArrayRef<unsigned> partial) {
    return rule.findLinear([&](unsigned i) { return llvm::is_contained(partial, i); });
  };
  EXPECT_EQ(find({0, 1}), &rule.linear[0]);
  EXPECT_EQ(find({0, 2}), &rule.linear[1]);
  EXPECT_EQ(find({0, 2, 3}), &rule.linear[1]); // an operand that only lends its shape
  EXPECT_EQ(find({0}), nullptr);
  EXPECT_EQ(find({0, 1, 2}), nullptr);
}

TEST_F(ShardingTest, ReductionsOfResults) {
  ShardingRule rule;
  Factor &factor = rule.factors.emplace_back();
  factor.reduction = FactorReduction::Sum;
  factor.unaffected = {1};
  EXPECT_EQ(rule.reductionAt(0, 0), FactorReduction::Sum);
  EXPECT_EQ(rule.reductionAt(0, 1), FactorReduction::None);
}

TEST_F(ShardingTest, ChecksFindContradictions) {
  mlir::Operation *op = parseMm();
  ASSERT_TRUE(op);
  ShardingRule right = getShardingRule(op);
  EXPECT_EQ(right.check(op), "");

  ShardingRule wrong = right;
  wrong.factors[0].size = 5;
  EXPECT_EQ(wrong.check(op),
            "operand 0: expected factors of a dimension of size 4, found a product of 5");
  wrong = right;
  wrong.results[0].pop_back();
  EXPECT_EQ(wrong.check(op), "result 0: expected factors of 2 dimensions, found 1");
  wrong = right;
  wrong.operands.pop_back();
  EXPECT_EQ(wrong.check(op), "it does not have the operands and results of the op");
  wrong = right;
  wrong.linear.push_back({{2}, {0}, false});
  EXPECT_NE(wrong.check(op).find("linear group"), std::string::npos);
  wrong = right;
  wrong.factors[0].addends = {0};
  EXPECT_EQ(wrong.check(op), "factor m has an addend that has the factor");
  wrong = right;
  wrong.sizeAttributes.push_back({"size", SizeAttribute::ResultShape, 1});
  EXPECT_EQ(wrong.check(op), "the size attribute `size` follows nothing");
}

TEST_F(ShardingTest, OpsWithoutTheInterfaceAreOpaque) {
  mlir::Operation *op = parse("%a: tensor<4x8xf32>", "");
  ASSERT_TRUE(op); // func.return
  ShardingRule rule = getShardingRule(op);
  EXPECT_TRUE(rule.isOpaque());
  EXPECT_EQ(text(rule), "opaque because it has no sharding rule");
}

TEST_F(ShardingTest, OpaqueRulesHaveOnlyWholeFactors) {
  mlir::Operation *op = parseMm();
  ASSERT_TRUE(op);
  ShardingRule rule = ShardingRule::opaque(op, "of a test");
  EXPECT_EQ(rule.check(op), "");
  EXPECT_EQ(rule.factors.size(), 6u);
  EXPECT_TRUE(llvm::all_of(rule.factors, [](const Factor &f) { return f.isWhole(); }));
  EXPECT_EQ(rule.findLinear([](unsigned i) { return i == 0; }), nullptr);
}

TEST_F(ShardingTest, ManyFactorsHaveDistinctNames) {
  std::string type = "tensor<";
  for (int i = 0; i < 40; ++i)
    type += "2x";
  type += "f32>";
  mlir::Operation *op = parse("%a: " + type, "%0 = aten.neg(%a) : (" + type + ") -> " + type);
  ASSERT_TRUE(op);
  ShardingRule rule = getShardingRule(op);
  std::set<std::string> names;
  for (const Factor &factor : rule.factors)
    names.insert(factor.name);
  EXPECT_EQ(names.size(), 40u);
}

} // namespace
