//===- RuleTextTest.cpp - sharding rules as short texts --------------------------===//

#include "test/unit/dialects/sharding/Fixture.h"

using namespace cleave;
using namespace cleave::sharding;

namespace {

class RuleTextTest : public ShardingTest {
protected:
  /// The rule that `text` makes of a 4x8 by 8x6 matrix product.
  std::string ofMm(const char *ruleText, std::initializer_list<const char *> wholes = {}) {
    mlir::Operation *op = parseMm();
    RuleBuilder builder(op);
    RuleText(ruleText, wholes).apply(builder, {0u, 1u});
    ShardingRule rule = builder.finish();
    EXPECT_EQ(rule.check(op), "");
    return text(rule);
  }
};

const char *misfit = "opaque because the text of its rule does not fit its operands";
const char *malformed = "opaque because the text of its rule is malformed";

TEST_F(RuleTextTest, Products) {
  EXPECT_EQ(ofMm("mk, kn -> mn"), "[m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum), n = 6");
  EXPECT_EQ(ofMm("mk,kn->mn", {"kn: of a test"}),
            "[m, k], [k, n] -> [m, n]; m = 4, k = 8, n = 6; whole k n because of a test");
}

TEST_F(RuleTextTest, Stars) {
  EXPECT_EQ(ofMm("*k, kn -> *n"), "[a, k], [k, n] -> [a, n]; a = 4, k = 8 (sum), n = 6");
}

TEST_F(RuleTextTest, CompoundDimensions) {
  mlir::Operation *op = parse("%a: tensor<12xf32>, %b: tensor<3xf32>",
                              "%0 = aten.call \"aten::outer\"(self = %a, vec2 = %b)"
                              " : (tensor<12xf32>, tensor<3xf32>) -> tensor<12x3xf32>");
  ASSERT_TRUE(op);
  RuleBuilder builder(op);
  RuleText("(gr), g -> (gr)g").apply(builder, {0u, 1u});
  EXPECT_EQ(text(builder.finish()), "[g r], [g] -> [g r, g]; g = 3, r = 4");
}

TEST_F(RuleTextTest, WhatDoesNotFitIsOpaque) {
  EXPECT_EQ(ofMm("mk, kn, m -> mn"), misfit);    // a tensor too many
  EXPECT_EQ(ofMm("mk, kn -> mn, m"), misfit);    // a result too many
  EXPECT_EQ(ofMm("mkl, kn -> mn"), misfit);      // another rank
  EXPECT_EQ(ofMm("(ab)k, kn -> (ab)n"), misfit); // two unknown sizes
  EXPECT_EQ(ofMm("m1, kn -> mn"), misfit);       // 8 is no 1
}

TEST_F(RuleTextTest, WhatIsMalformedIsOpaque) {
  EXPECT_EQ(ofMm("m?, kn -> mn"), malformed);
  EXPECT_EQ(ofMm("(mk, kn -> mn"), malformed);
  EXPECT_EQ(ofMm("mk, kn -> mn", {"k"}), malformed); // no reason for a whole factor
}

} // namespace
