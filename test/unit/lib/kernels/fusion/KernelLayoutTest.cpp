//===- KernelLayoutTest.cpp - where kernels' tensors lie ---------------------===//

#include "lib/kernels/fusion/KernelLayout.h"

#include "dialects/aten/Aten.h"
#include "dialects/exec/Exec.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace cleave;
using namespace cleave::kernels;

namespace {

using Sizes = std::vector<int64_t>;

class KernelLayoutTest : public testing::Test {
protected:
  KernelLayoutTest() { context.loadDialect<aten::AtenDialect, exec::ExecDialect>(); }

  /// Of a kernel with this signature and these ops.
  std::optional<KernelLayout> analyze(const std::string &signature, const std::string &ops) {
    module = parseSourceString<ModuleOp>("exec.kernel @k(" + signature + " {\n" + ops + "\n}\n",
                                         &context);
    EXPECT_TRUE(module);
    if (!module)
      return std::nullopt;
    return analyzeKernel(body());
  }
  Block &body() { return (*module->getOps<exec::KernelOp>().begin()).getBody().front(); }

  static Sizes strides(const RowLayout &access) {
    return Sizes(access.rowStrides.begin(), access.rowStrides.end());
  }
  static Sizes rows(const KernelLayout &layout) {
    return Sizes(layout.rowFactors.begin(), layout.rowFactors.end());
  }
  const RowLayout &argument(const KernelLayout &layout, unsigned i) {
    return layout.values.at(body().getArgument(i));
  }
  const RowLayout &result(const KernelLayout &layout, unsigned i) {
    return layout.values.at(body().getTerminator()->getOperand(i));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(KernelLayoutTest, FactorsThatAllTensorsShareAreOne) {
  auto layout = analyze(
      "%x: tensor<2x3x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x4xf32>",
      "%0 = aten.mul(%x, %w) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>\n"
      "%1 = aten.sum_dim_int_list(%0, dim = [-1], keepdim = true) : (tensor<2x3x4xf32>) -> "
      "tensor<2x3x1xf32>\n"
      "%2 = aten.div(%0, %1) : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>\n"
      "exec.return %2 : tensor<2x3x4xf32>");
  ASSERT_TRUE(layout);
  EXPECT_EQ(rows(*layout), Sizes({6}));
  EXPECT_EQ(layout->columns, 4);
  EXPECT_EQ(argument(*layout, 0).extent, Extent::Full);
  EXPECT_EQ(strides(argument(*layout, 0)), Sizes({4}));
  EXPECT_EQ(argument(*layout, 1).extent, Extent::Column);
  EXPECT_EQ(strides(argument(*layout, 1)), Sizes({0}));
  EXPECT_FALSE(argument(*layout, 1).hasAllRows);
  Value sum = std::next(body().begin())->getResult(0);
  EXPECT_EQ(layout->values.at(sum).extent, Extent::Row);
  EXPECT_TRUE(result(*layout, 0).isInOrder);
}

/// Tables of a rotary embedding have one factor, heads are read where the product wrote them, and
/// halves of a row have columns of their own.
TEST_F(KernelLayoutTest, Rotary) {
  auto layout =
      analyze("%x: tensor<2x16x4x8xf32>, %t: tensor<1x1x16x8xf32>) -> tensor<2x4x16x8xf32>",
              "%q = aten.transpose(%x, dim0 = 1, dim1 = 2) : (tensor<2x16x4x8xf32>) -> "
              "tensor<2x4x16x8xf32>\n"
              "%0 = aten.slice(%q, dim = 3, start = 0, end = 4) : (tensor<2x4x16x8xf32>) -> "
              "tensor<2x4x16x4xf32>\n"
              "%1 = aten.neg(%0) : (tensor<2x4x16x4xf32>) -> tensor<2x4x16x4xf32>\n"
              "%2 = aten.cat([%1, %0], dim = -1) : (tensor<2x4x16x4xf32>, tensor<2x4x16x4xf32>) -> "
              "tensor<2x4x16x8xf32>\n"
              "%3 = aten.mul(%2, %t) : (tensor<2x4x16x8xf32>, tensor<1x1x16x8xf32>) -> "
              "tensor<2x4x16x8xf32>\n"
              "exec.return %3 : tensor<2x4x16x8xf32>");
  ASSERT_TRUE(layout);
  EXPECT_EQ(rows(*layout), Sizes({2, 4, 16}));
  EXPECT_EQ(strides(argument(*layout, 0)), Sizes({512, 8, 32}));
  EXPECT_FALSE(argument(*layout, 0).isInOrder);
  EXPECT_EQ(strides(argument(*layout, 1)), Sizes({0, 0, 8}));
  EXPECT_FALSE(argument(*layout, 1).hasAllRows);
  EXPECT_EQ(argument(*layout, 1).extent, Extent::Full);
  EXPECT_TRUE(result(*layout, 0).isInOrder);
  Value half = std::next(body().begin(), 2)->getResult(0);
  EXPECT_EQ(layout->values.at(half).columns, 4);
}

/// Cuts of 4 x 6 and 12 x 2 are 4 x 3 x 2.
TEST_F(KernelLayoutTest, CommonRefinement) {
  auto layout = analyze(
      "%x: tensor<4x6x8xf32>, %a: tensor<4x1x8xf32>, %b: tensor<12x1x8xf32>) -> tensor<12x2x8xf32>",
      "%0 = aten.mul(%x, %a) : (tensor<4x6x8xf32>, tensor<4x1x8xf32>) -> tensor<4x6x8xf32>\n"
      "%1 = aten.view(%0, size = [12, 2, 8]) : (tensor<4x6x8xf32>) -> tensor<12x2x8xf32>\n"
      "%2 = aten.mul(%1, %b) : (tensor<12x2x8xf32>, tensor<12x1x8xf32>) -> tensor<12x2x8xf32>\n"
      "exec.return %2 : tensor<12x2x8xf32>");
  ASSERT_TRUE(layout);
  EXPECT_EQ(rows(*layout), Sizes({4, 3, 2}));
  EXPECT_EQ(strides(argument(*layout, 0)), Sizes({48, 16, 8}));
  EXPECT_EQ(strides(argument(*layout, 1)), Sizes({8, 0, 0}));
  EXPECT_EQ(strides(argument(*layout, 2)), Sizes({24, 8, 0}));
}

/// Numbers for each row are known as such by their users, even where they come first.
TEST_F(KernelLayoutTest, RowsByTheirUsers) {
  auto layout = analyze(
      "%r: tensor<2x16x1xf32>, %x: tensor<2x16x32xf32>) -> (tensor<2x16x32xf32>, tensor<f32>)",
      "%0 = aten.exp(%r) : (tensor<2x16x1xf32>) -> tensor<2x16x1xf32>\n"
      "%1 = aten.mul(%x, %0) : (tensor<2x16x32xf32>, tensor<2x16x1xf32>) -> tensor<2x16x32xf32>\n"
      "%2 = aten.sum(%1) : (tensor<2x16x32xf32>) -> tensor<f32>\n"
      "exec.return %1, %2 : tensor<2x16x32xf32>, tensor<f32>");
  ASSERT_TRUE(layout);
  EXPECT_EQ(argument(*layout, 0).extent, Extent::Row);
  EXPECT_EQ(strides(argument(*layout, 0)), Sizes({1}));
  EXPECT_EQ(result(*layout, 1).extent, Extent::Scalar);
  EXPECT_TRUE(result(*layout, 1).isTotal);
}

TEST_F(KernelLayoutTest, OneRow) {
  auto layout = analyze("%x: tensor<8xf32>) -> tensor<f32>",
                        "%0 = aten.exp(%x) : (tensor<8xf32>) -> tensor<8xf32>\n"
                        "%1 = aten.sum(%0) : (tensor<8xf32>) -> tensor<f32>\n"
                        "exec.return %1 : tensor<f32>");
  ASSERT_TRUE(layout);
  EXPECT_EQ(rows(*layout), Sizes());
  EXPECT_EQ(layout->rows, 1);
  EXPECT_EQ(argument(*layout, 0).extent, Extent::Full);
  EXPECT_EQ(result(*layout, 0).extent, Extent::Scalar);
  EXPECT_FALSE(result(*layout, 0).isTotal);
}

/// The sum over the rows is not there while they are walked over.
TEST_F(KernelLayoutTest, NoUseOfATotal) {
  EXPECT_FALSE(analyze("%x: tensor<4x8xf32>) -> tensor<4x8xf32>",
                       "%0 = aten.sum_dim_int_list(%x, dim = [0]) : (tensor<4x8xf32>) -> "
                       "tensor<8xf32>\n"
                       "%1 = aten.mul(%x, %0) : (tensor<4x8xf32>, tensor<8xf32>) -> "
                       "tensor<4x8xf32>\n"
                       "exec.return %1 : tensor<4x8xf32>"));
}

TEST_F(KernelLayoutTest, NoRowsInCommon) {
  EXPECT_FALSE(analyze("%x: tensor<4x8xf32>, %y: tensor<3x5xf32>) -> (tensor<4x8xf32>, "
                       "tensor<3x5xf32>)",
                       "%0 = aten.exp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                       "%1 = aten.exp(%y) : (tensor<3x5xf32>) -> tensor<3x5xf32>\n"
                       "exec.return %0, %1 : tensor<4x8xf32>, tensor<3x5xf32>"));
}

/// A value that is the same for several rows is not stored for each.
TEST_F(KernelLayoutTest, NoStoreOfARepeatedValue) {
  EXPECT_FALSE(
      analyze("%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)",
              "%0 = aten.exp(%w) : (tensor<8xf32>) -> tensor<8xf32>\n"
              "%1 = aten.mul(%x, %0) : (tensor<4x8xf32>, tensor<8xf32>) -> "
              "tensor<4x8xf32>\n"
              "exec.return %1, %0 : tensor<4x8xf32>, tensor<8xf32>"));
}

TEST_F(KernelLayoutTest, NoExchangeOfRowsAndColumns) {
  EXPECT_FALSE(analyze("%x: tensor<4x8xf32>) -> tensor<8x4xf32>",
                       "%0 = aten.exp(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
                       "%1 = aten.transpose(%0, dim0 = 0, dim1 = 1) : (tensor<4x8xf32>) -> "
                       "tensor<8x4xf32>\n"
                       "exec.return %1 : tensor<8x4xf32>"));
}

} // namespace
