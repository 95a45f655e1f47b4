//===- FactsTest.cpp - what ops say of themselves -----------------------------===//

#include "dialects/aten/Aten.h"
#include "dialects/dist/Dist.h"
#include "dialects/train/Train.h"
#include "lib/aten/OpCost.h"
#include "lib/memory/InPlace.h"
#include "lib/memory/MemoryPlan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace cleave;

namespace {

class FactsTest : public testing::Test {
protected:
  FactsTest() {
    context.loadDialect<aten::AtenDialect, dist::DistDialect, train::TrainDialect,
                        func::FuncDialect>();
  }

  /// The first op of a function with these arguments.
  Operation *op(const std::string &arguments, const std::string &text,
                const std::string &head = "") {
    module = parseSourceString<ModuleOp>(
        head + "func.func @f(" + arguments + ") {\n" + text + "\nreturn\n}\n", &context);
    EXPECT_TRUE(module);
    return module ? &(*module->getOps<func::FuncOp>().begin()).front().front() : nullptr;
  }
  int64_t flops(const std::string &arguments, const std::string &text,
                const std::string &head = "") {
    return aten::countFlops(op(arguments, text, head));
  }
  int64_t bytes(const std::string &arguments, const std::string &text) {
    return aten::countBytes(op(arguments, text));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(FactsTest, FlopsOfProducts) {
  EXPECT_EQ(flops("%a: tensor<4x8xf32>, %b: tensor<8x16xf32>",
                  "%0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>"),
            2 * 4 * 8 * 16);
  EXPECT_EQ(flops("%c: tensor<16xf32>, %a: tensor<4x8xf32>, %b: tensor<8x16xf32>",
                  "%0 = aten.addmm(%c, %a, %b) : (tensor<16xf32>, tensor<4x8xf32>, "
                  "tensor<8x16xf32>) -> tensor<4x16xf32>"),
            2 * 4 * 8 * 16);
  EXPECT_EQ(flops("%a: tensor<2x4x8xf32>, %b: tensor<2x8x16xf32>",
                  "%0 = aten.bmm(%a, %b) : (tensor<2x4x8xf32>, tensor<2x8x16xf32>) -> "
                  "tensor<2x4x16xf32>"),
            2 * 2 * 4 * 8 * 16);
  EXPECT_EQ(flops("%a: tensor<4x8xf32>, %x: tensor<8xf32>",
                  "%0 = aten.mv(%a, %x) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4xf32>"),
            2 * 4 * 8);
  EXPECT_EQ(flops("%a: tensor<4x8xf32>, %b: tensor<8x2xf32>, "
                  "%c: !train.bucket<@b : tensor<8xf32>>",
                  "%0 = train.contribute_mm(%a, %b) to \"w\" in %c : (tensor<4x8xf32>, "
                  "tensor<8x2xf32>), !train.bucket<@b : tensor<8xf32>>",
                  "train.bucket @b of f32 [\"w\" : tensor<4x2xf32>]\n"),
            2 * 4 * 8 * 2);
}

TEST_F(FactsTest, FlopsOfConvolutions) {
  const std::string numbers = "stride = [1, 1], padding = [1, 1], dilation = [1, 1], "
                              "transposed = false, output_padding = [0, 0], groups = 1";
  EXPECT_EQ(flops("%x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>",
                  "%0 = aten.convolution(%x, %w, none, " + numbers +
                      ") : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x8x8xf32>"),
            2 * (2 * 16 * 8 * 8) * (3 * 3 * 3));
  // Of two gradients, and of one.
  for (bool isInput : {true, false}) {
    std::string first = isInput ? "tensor<2x3x8x8xf32>" : "none";
    EXPECT_EQ(flops("%g: tensor<2x16x8x8xf32>, %x: tensor<2x3x8x8xf32>, %w: tensor<16x3x3x3xf32>",
                    "%0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], " + numbers +
                        ", output_mask = [" + (isInput ? "true" : "false") +
                        ", true, false]) : (tensor<2x16x8x8xf32>, tensor<2x3x8x8xf32>, "
                        "tensor<16x3x3x3xf32>) -> (" +
                        first + ", tensor<16x3x3x3xf32>, none)"),
              (isInput ? 2 : 1) * 2 * (2 * 16 * 8 * 8) * (3 * 3 * 3));
  }
}

TEST_F(FactsTest, FlopsOfAttention) {
  // 4 queries and 6 keys: the backward counts keys as the forward does.
  const int64_t forward = 4 * (2 * 2 * 4 * 8) * 6;
  EXPECT_EQ(flops("%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x6x8xf32>",
                  "%0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k, none) : "
                  "(tensor<2x2x4x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>) -> "
                  "(tensor<2x2x4x8xf32>, tensor<2x2x4xf32>)"),
            forward);
  EXPECT_EQ(flops("%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x6x8xf32>, %l: tensor<2x2x4xf32>",
                  "%0:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%q, %q, %k, "
                  "%k, %q, %l, dropout_p = 0.0, is_causal = false, none) : (tensor<2x2x4x8xf32>, "
                  "tensor<2x2x4x8xf32>, tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>, "
                  "tensor<2x2x4x8xf32>, tensor<2x2x4xf32>) -> (tensor<2x2x4x8xf32>, "
                  "tensor<2x2x6x8xf32>, tensor<2x2x6x8xf32>)"),
            forward / 2 * 5);
}

TEST_F(FactsTest, FlopsOfCalls) {
  EXPECT_EQ(flops("%a: tensor<4x8xf32>, %b: tensor<8x16xf32>",
                  "%0 = aten.call \"aten::matmul\"(self = %a, other = %b) : (tensor<4x8xf32>, "
                  "tensor<8x16xf32>) -> tensor<4x16xf32>"),
            2 * 4 * 8 * 16);
  // Of what is not known, memory decides.
  EXPECT_EQ(flops("%a: tensor<4x8xf32>",
                  "%0 = aten.call \"aten::digamma\"(self = %a) : (tensor<4x8xf32>) -> "
                  "tensor<4x8xf32>"),
            0);
}

TEST_F(FactsTest, Bytes) {
  EXPECT_EQ(bytes("%a: tensor<4x8xf32>, %b: tensor<8xf32>",
                  "%0 = aten.add(%a, %b) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>"),
            4 * (32 + 8 + 32));
  EXPECT_EQ(bytes("%a: tensor<4x8xf32>",
                  "%0 = aten.transpose(%a, dim0 = 0, dim1 = 1) : (tensor<4x8xf32>) -> "
                  "tensor<8x4xf32>"),
            0);
  // Of a table, the rows that are looked up.
  EXPECT_EQ(bytes("%w: tensor<1000x8xf32>, %i: tensor<5xi64>",
                  "%0 = aten.embedding(%w, %i) : (tensor<1000x8xf32>, tensor<5xi64>) -> "
                  "tensor<5x8xf32>"),
            4 * 40 + 8 * 5 + 4 * 40);
  EXPECT_EQ(bytes("%w: tensor<1000x8xf32>, %i: tensor<5xi64>",
                  "%0 = aten.index_select(%w, dim = 0, %i) : (tensor<1000x8xf32>, tensor<5xi64>) "
                  "-> tensor<5x8xf32>"),
            4 * 40 + 8 * 5 + 4 * 40);
}

TEST_F(FactsTest, ViewsOfAllDialectsAreOne) {
  const std::string mesh = "dist.mesh @mesh [\"tp\" = 2]\n";
  const std::string v = "tensor<8xf32, #dist.on<@mesh, tp = V>>",
                    p = "tensor<8xf32, #dist.on<@mesh, tp = P>>",
                    r = "tensor<8xf32, #dist.on<@mesh, tp = R>>";
  auto source = [&](const std::string &type, const std::string &text) {
    Operation *first = op("%x: " + type, text, mesh);
    return first ? memory::getViewSource(first->getResult(0)) : Value();
  };
  EXPECT_TRUE(source(v, "%0 = dist.reinterpret %x : " + v + " -> " + p));
  // Zeros on all ranks but one are memory of their own.
  EXPECT_FALSE(source(r, "%0 = dist.convert %x : " + r + " -> " + p));
  EXPECT_TRUE(source("tensor<4x8xf32>",
                     "%0 = aten.view(%x, size = [32]) : (tensor<4x8xf32>) -> tensor<32xf32>"));
  EXPECT_FALSE(
      source("tensor<4x8xf32>", "%0 = aten.relu(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>"));
}

TEST_F(FactsTest, PointwiseOpsOverwriteWhereTheirOutDoes) {
  const std::string type = "(tensor<4x8xf32>) -> tensor<4x8xf32>";
  EXPECT_TRUE(exec::mayOverwrite(op("%x: tensor<4x8xf32>", "%0 = aten.exp(%x) : " + type), 0));
  // PyTorch generates its `out` overload: computed elsewhere, and copied.
  EXPECT_FALSE(exec::mayOverwrite(op("%x: tensor<4x8xf32>", "%0 = aten.relu(%x) : " + type), 0));
  // Each element needs others.
  EXPECT_FALSE(
      exec::mayOverwrite(op("%x: tensor<4x8xf32>", "%0 = aten.cumsum(%x, dim = 0) : " + type), 0));
}

TEST_F(FactsTest, MessagesOfCommunication) {
  auto messages = [&](const std::string &text) -> int64_t {
    auto communication = dyn_cast_or_null<dist::CommunicationOpInterface>(
        op("%x: tensor<8xf32>", text, "dist.mesh @mesh [\"tp\" = 4]\n"));
    return communication ? communication.countMessages(4) : -1;
  };
  EXPECT_EQ(messages("%0 = dist.all_reduce sum(%x) over @mesh [\"tp\"] : tensor<8xf32>"), 6);
  EXPECT_EQ(messages("%0 = dist.all_gather(%x) dim 0 over @mesh [\"tp\"] : tensor<8xf32> -> "
                     "tensor<32xf32>"),
            3);
  EXPECT_EQ(messages("%0 = dist.shift(%x) by 1 wrap over @mesh [\"tp\"] : tensor<8xf32>"), 1);
}

//===----------------------------------------------------------------------===//
// What an op does with elements
//===----------------------------------------------------------------------===//

TEST_F(FactsTest, WhatMixesElements) {
  auto mixes = [&](const std::string &arguments, const std::string &text) {
    return cast<aten::AtenOpInterface>(op(arguments, text)).mixesElements();
  };
  EXPECT_TRUE(mixes("%a: tensor<4x4xf32>", "%0 = aten.mm(%a, %a) : (tensor<4x4xf32>, "
                                           "tensor<4x4xf32>) -> tensor<4x4xf32>"));
  EXPECT_TRUE(mixes("%a: tensor<4x8xf32>",
                    "%0 = aten.cumsum(%a, dim = 1) : (tensor<4x8xf32>) -> tensor<4x8xf32>"));
  // Nothing is known of an operator without a record.
  EXPECT_TRUE(mixes("%a: tensor<4x8xf32>", "%0 = aten.call \"aten::digamma\"(self = %a) : "
                                           "(tensor<4x8xf32>) -> tensor<4x8xf32>"));
  EXPECT_FALSE(mixes("%a: tensor<4x8xf32>", "%0 = aten.sum_dim_int_list(%a, dim = [0]) : "
                                            "(tensor<4x8xf32>) -> tensor<8xf32>"));
  EXPECT_FALSE(mixes("%a: tensor<4x8xf32>", "%0 = aten.t(%a) : (tensor<4x8xf32>) -> "
                                            "tensor<8x4xf32>"));
  EXPECT_FALSE(mixes("%a: tensor<4x8xf32>",
                     "%0 = aten.add(%a, %a) : (tensor<4x8xf32>, tensor<4x8xf32>) -> "
                     "tensor<4x8xf32>"));
}

TEST_F(FactsTest, WhatCopies) {
  auto copies = [&](const std::string &arguments, const std::string &text) {
    return op(arguments, text)->hasTrait<aten::CopyLike>();
  };
  EXPECT_TRUE(copies("%a: tensor<4xf32>",
                     "%0 = aten._to_copy(%a, dtype = bf16) : (tensor<4xf32>) -> tensor<4xbf16>"));
  EXPECT_TRUE(
      copies("%a: tensor<4xf32>",
             "%0 = aten._unsafe_view(%a, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>"));
  // In another order, and no new memory.
  EXPECT_FALSE(copies("%a: tensor<4xf32>",
                      "%0 = aten.flip(%a, dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>"));
  EXPECT_FALSE(copies("%a: tensor<4xf32>",
                      "%0 = aten.view(%a, size = [2, 2]) : (tensor<4xf32>) -> tensor<2x2xf32>"));
}

TEST_F(FactsTest, WhatLooksUp) {
  auto lookUp = [&](const std::string &arguments, const std::string &text) {
    return cast<aten::AtenOpInterface>(op(arguments, text)).getLookUp();
  };
  std::optional<aten::LookUp> rows =
      lookUp("%w: tensor<16x8xf32>, %i: tensor<4xi64>",
             "%0 = aten.embedding(%w, %i) : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->dim, 0u);
  EXPECT_FALSE(rows->ignored);
  std::optional<aten::LookUp> classes =
      lookUp("%x: tensor<4x8xf32>, %t: tensor<4xi64>",
             "%0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100) : "
             "(tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)");
  ASSERT_TRUE(classes);
  EXPECT_EQ(classes->dim, 1u);
  EXPECT_EQ(classes->ignored, -100);
  std::optional<aten::LookUp> pixels =
      lookUp("%x: tensor<2x8x4x6xf32>, %t: tensor<2x4x6xi64>",
             "%0:2 = aten.nll_loss2d_forward(%x, %t, none, reduction = 1, ignore_index = 255) : "
             "(tensor<2x8x4x6xf32>, tensor<2x4x6xi64>) -> (tensor<f32>, tensor<f32>)");
  ASSERT_TRUE(pixels);
  EXPECT_EQ(pixels->ignored, 255);
  EXPECT_FALSE(lookUp("%x: tensor<4xf32>", "%0 = aten.neg(%x) : (tensor<4xf32>) -> tensor<4xf32>"));
}

} // namespace
