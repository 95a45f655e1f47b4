//===- RanksTest.cpp - what a pass left against what it was given ------------===//

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/prove/Prove.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace cleave;

namespace {

const char *const kMesh = "dist.mesh @mesh [\"tp\" = 2]\n"
                          "#R = #dist.on<@mesh, tp = R>\n#P = #dist.on<@mesh, tp = P>\n"
                          "#S = #dist.on<@mesh, tp = S(0)>\n#V = #dist.on<@mesh, tp = V>\n";

class RanksTest : public testing::Test {
protected:
  RanksTest() {
    context.loadDialect<func::FuncDialect, aten::AtenDialect, dist::DistDialect,
                        train::TrainDialect>();
  }
  prove::Proof compare(const std::string &before, const std::string &after) {
    auto parse = [&](const std::string &text) {
      return parseSourceString<ModuleOp>(kMesh + text, ParserConfig(&context));
    };
    OwningOpRef<ModuleOp> first = parse(before), second = parse(after);
    EXPECT_TRUE(first && second);
    FailureOr<prove::Proof> proof = prove::provePreserved(*first, *second, {});
    EXPECT_TRUE(succeeded(proof));
    return *proof;
  }
  MLIRContext context;
};

// Values of each rank, of which no signature says how they belong together.
TEST_F(RanksTest, UntypedValuesAreThoseOfTheRank) {
  std::string head = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n";
  std::string sum = "%1 = dist.all_reduce sum(%0) over @mesh [\"tp\"] : tensor<4xf32>\n";
  std::string tail = "return %1 : tensor<4xf32>\n}\n";
  std::string twice = "%0 = aten.add(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n";
  std::string scaled = "%0 = aten.mul_scalar(%x, other = 2.0) : (tensor<4xf32>) -> tensor<4xf32>\n";
  EXPECT_TRUE(compare(head + twice + sum + tail, head + scaled + sum + tail).isProved);
  // The sum of the sums is twice as much.
  std::string again = "%2 = dist.all_reduce sum(%0) over @mesh [\"tp\"] : tensor<4xf32>\n"
                      "%1 = dist.all_reduce sum(%2) over @mesh [\"tp\"] : tensor<4xf32>\n";
  prove::Proof doubled = compare(head + scaled + sum + tail, head + scaled + again + tail);
  ASSERT_EQ(doubled.findings.size(), 1u);
  EXPECT_TRUE(doubled.findings[0].differs);
  EXPECT_NE(doubled.findings[0].relation.find("2 times the expected value"), std::string::npos);
  // Without the sum.
  std::string none = "%1 = aten.mul_scalar(%x, other = 2.0) : (tensor<4xf32>) -> tensor<4xf32>\n";
  prove::Proof missing = compare(head + scaled + sum + tail, head + none + sum.substr(0, 0) + tail);
  EXPECT_FALSE(missing.isProved);
}

// A result that lies in another way is the same whole.
TEST_F(RanksTest, OtherPlacementsOfTheSameWhole) {
  std::string whole = "func.func @f(%x: tensor<4xf32, #S>) -> tensor<8xf32, #R> {\n"
                      "%0 = aten.tanh(%x) : (tensor<4xf32, #S>) -> tensor<4xf32, #S>\n"
                      "%1 = dist.all_gather(%0) dim 0 over @mesh [\"tp\"] : tensor<4xf32, #S> -> "
                      "tensor<8xf32, #R>\n"
                      "return %1 : tensor<8xf32, #R>\n}\n";
  std::string part = "func.func @f(%x: tensor<8xf32, #R>) -> tensor<4xf32, #S> {\n"
                     "%0 = dist.convert %x : tensor<8xf32, #R> -> tensor<4xf32, #S>\n"
                     "%1 = aten.tanh(%0) : (tensor<4xf32, #S>) -> tensor<4xf32, #S>\n"
                     "return %1 : tensor<4xf32, #S>\n}\n";
  EXPECT_TRUE(compare(whole, part).isProved);
  EXPECT_TRUE(compare(part, whole).isProved);
  std::string other = part;
  other.replace(other.find("aten.tanh"), 9, "aten.relu");
  EXPECT_FALSE(compare(whole, other).isProved);
}

// Of terms of a sum in one program, and the whole in the other, only the sum is the same.
TEST_F(RanksTest, TermsAreNotTheSame) {
  std::string terms =
      "func.func @f(%x: tensor<4xf32, #P>) -> tensor<4xf32, #R> {\n"
      "%0 = dist.all_reduce sum(%x) over @mesh [\"tp\"] : tensor<4xf32, #P> -> tensor<4xf32, #R>\n"
      "return %0 : tensor<4xf32, #R>\n}\n";
  std::string whole = "func.func @f(%x: tensor<4xf32, #R>) -> tensor<4xf32, #R> {\n"
                      "return %x : tensor<4xf32, #R>\n}\n";
  EXPECT_TRUE(compare(terms, whole).isProved);
  EXPECT_TRUE(compare(whole, terms).isProved);
  // The largest term is none of the whole.
  std::string greatest = terms;
  greatest.replace(greatest.find("all_reduce sum"), 14, "all_reduce max");
  greatest.replace(greatest.find("tensor<4xf32, #P>"), 17, "tensor<4xf32, #V>");
  greatest.replace(greatest.find("tensor<4xf32, #P>"), 17, "tensor<4xf32, #V>");
  EXPECT_FALSE(compare(whole, greatest).isProved);
  // Terms that are cut in another way are not the terms before, though their sum is the same.
  std::string mine = "func.func @f(%x: tensor<4xf32, #P>) -> tensor<4xf32, #P> {\nreturn %x : "
                     "tensor<4xf32, #P>\n}\n";
  std::string first =
      "func.func @f(%x: tensor<4xf32, #P>) -> tensor<4xf32, #P> {\n"
      "%0 = dist.all_reduce sum(%x) over @mesh [\"tp\"] : tensor<4xf32, #P> -> tensor<4xf32, #R>\n"
      "%1 = dist.convert %0 : tensor<4xf32, #R> -> tensor<4xf32, #P>\n"
      "return %1 : tensor<4xf32, #P>\n}\n";
  EXPECT_FALSE(compare(mine, first).isProved);
}

TEST_F(RanksTest, ResultsThatAreNewOrGone) {
  std::string one = "func.func @f(%x: tensor<4xf32, #R>) -> tensor<4xf32, #R> {\nreturn %x : "
                    "tensor<4xf32, #R>\n}\n";
  std::string two =
      "func.func @f(%x: tensor<4xf32, #R>) -> (tensor<4xf32, #R>, tensor<4xf32, #R>) {\n"
      "return %x, %x : tensor<4xf32, #R>, tensor<4xf32, #R>\n}\n";
  prove::Proof grown = compare(one, two);
  ASSERT_EQ(grown.findings.size(), 1u);
  EXPECT_TRUE(grown.findings[0].isNew);
  prove::Proof shrunk = compare(two, one);
  ASSERT_EQ(shrunk.findings.size(), 1u);
  EXPECT_FALSE(shrunk.findings[0].isNew || shrunk.findings[0].differs);
}

} // namespace
