//===- PlacementTest.cpp - the algebra of placements -------------------------===//

#include "dialects/dist/Dist.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cleave::dist;

namespace {

class Placements : public testing::Test {
protected:
  Placements() { context.loadDialect<DistDialect>(); }

  FlatSymbolRefAttr mesh() { return FlatSymbolRefAttr::get(&context, "mesh"); }
  AxisEntry entry(StringRef axis, AxisPlacement placement) {
    return {StringAttr::get(&context, axis), placement};
  }
  /// `dp = S(0), tp = R`
  PlacementAttr parse(const std::string &entries) {
    return dyn_cast_or_null<PlacementAttr>(
        parseAttribute("#dist.on<@mesh, " + entries + ">", &context));
  }
  std::string print(Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream(text) << attribute;
    return text;
  }

  MLIRContext context;
};

TEST_F(Placements, EqualOnesAreOneAttribute) {
  PlacementAttr a = PlacementAttr::get(
      mesh(), {entry("tp", AxisPlacement::replicate()), entry("dp", AxisPlacement::shard(0))});
  PlacementAttr b = PlacementAttr::get(
      mesh(), {entry("dp", AxisPlacement::shard(0)), entry("tp", AxisPlacement::replicate())});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, parse("tp = R, dp = S(0)"));
  EXPECT_EQ(print(a), "#dist.on<@mesh, dp = S(0), tp = R>");
  EXPECT_NE(a, parse("dp = S(1), tp = R"));
  EXPECT_NE(a, parse("dp = S(0), tp = I"));
}

TEST_F(Placements, TextTellsOrderOnlyWhereSeveralAxesShard) {
  for (const char *text :
       {"dp = S(0)", "dp = S(0, 0), tp = S(0, 1)", "dp = S(0, 1), tp = S(0, 0)",
        "dp = S(0), tp = S(1)", "dp = P, tp = P(avg)", "dp = P(max), tp = P(max)", "dp = P(min)",
        "dp = P(product)", "dp = V, tp = I", "a = S(2, 2), b = S(2, 0), c = S(2, 1)"})
    EXPECT_EQ(print(parse(text)), "#dist.on<@mesh, " + std::string(text) + ">");
  EXPECT_EQ(parse("dp = S(0, 0)"), parse("dp = S(0)"));
  EXPECT_EQ(parse("dp = P(sum)"), parse("dp = P"));
}

TEST_F(Placements, AnswerByAxis) {
  PlacementAttr placement = parse("dp = S(0), tp = P");
  EXPECT_EQ(placement.get("dp"), AxisPlacement::shard(0));
  EXPECT_EQ(placement.get("tp"), AxisPlacement::partial());
  EXPECT_EQ(placement.get("pp"), std::nullopt);
  EXPECT_EQ(placement.with("tp", AxisPlacement::replicate()), parse("dp = S(0), tp = R"));
  EXPECT_EQ(placement.with("cp", AxisPlacement::varying()), parse("cp = V, dp = S(0), tp = P"));
}

TEST_F(Placements, ShardingAxesAreMajorFirst) {
  PlacementAttr placement = parse("a = S(0, 2), b = S(0, 0), c = S(1), d = S(0, 1), e = R");
  SmallVector<std::string> names;
  for (StringAttr axis : placement.getShardingAxes(0))
    names.push_back(axis.str());
  EXPECT_EQ(names, (SmallVector<std::string>{"b", "d", "a"}));
  EXPECT_EQ(placement.getShardingAxes(1).size(), 1u);
  EXPECT_TRUE(placement.getShardingAxes(2).empty());
}

TEST_F(Placements, DifferingAxes) {
  PlacementAttr placement = parse("dp = S(0), tp = P");
  EXPECT_TRUE(placement.getDifferingAxes(placement).empty());
  auto axes = placement.getDifferingAxes(parse("dp = S(0), tp = R"));
  ASSERT_EQ(axes.size(), 1u);
  EXPECT_EQ(axes[0].getValue(), "tp");
  EXPECT_EQ(placement.getDifferingAxes(parse("dp = R, tp = R")).size(), 2u);
}

TEST_F(Placements, DualIsTheCotangents) {
  EXPECT_EQ(*parse("dp = R, tp = S(0)").dual(), parse("dp = P, tp = S(0)"));
  EXPECT_EQ(*parse("dp = P, tp = I").dual(), parse("dp = R, tp = I"));
  EXPECT_EQ(*parse("dp = V").dual(), parse("dp = V"));
  for (const char *text : {"dp = P(avg)", "dp = P(max)", "dp = P(min), tp = R", "dp = P(product)"})
    EXPECT_TRUE(failed(parse(text).dual())) << text;
  // Twice gives the value's own placement.
  for (const char *text : {"dp = R, tp = I", "dp = P, tp = V", "dp = S(1, 1), tp = S(1, 0)"})
    EXPECT_EQ(*parse(text).dual()->dual(), parse(text)) << text;
}

TEST_F(Placements, OfTypes) {
  auto bare = RankedTensorType::get({4, 8}, Float32Type::get(&context));
  PlacementAttr placement = parse("dp = S(0)");
  RankedTensorType typed = withPlacement(bare, placement);
  EXPECT_EQ(getPlacement(typed), placement);
  EXPECT_EQ(getPlacement(FutureType::get(typed)), placement);
  EXPECT_EQ(valueTypeOf(FutureType::get(typed)), typed);
  EXPECT_EQ(erasePlacement(typed), bare);
  EXPECT_EQ(withPlacement(typed, {}), bare);
  EXPECT_FALSE(getPlacement(bare));
  EXPECT_FALSE(getPlacement(IndexType::get(&context)));
  EXPECT_FALSE(getPlacement(FutureType::get(NoneType::get(&context))));
  EXPECT_EQ(erasePlacement(bare), bare);
  EXPECT_EQ(erasePlacement(IndexType::get(&context)), IndexType::get(&context));
}

TEST_F(Placements, ReductionsByElementType) {
  Builder b(&context);
  using enum Reduction;
  for (Reduction reduction : {Sum, Product, Max, Min}) {
    EXPECT_TRUE(isReducible(reduction, b.getF32Type()));
    EXPECT_TRUE(isReducible(reduction, b.getI64Type()));
    EXPECT_FALSE(isReducible(reduction, b.getI1Type()));
  }
  for (Reduction reduction : {Avg, PremulSum}) {
    EXPECT_TRUE(isReducible(reduction, b.getBF16Type()));
    EXPECT_FALSE(isReducible(reduction, b.getI64Type()));
    EXPECT_FALSE(isReducible(reduction, b.getI1Type()));
  }
  for (Reduction reduction : {BitAnd, BitOr, BitXor}) {
    EXPECT_FALSE(isReducible(reduction, b.getF32Type()));
    EXPECT_TRUE(isReducible(reduction, b.getI64Type()));
    EXPECT_TRUE(isReducible(reduction, b.getI1Type()));
  }
}

} // namespace
