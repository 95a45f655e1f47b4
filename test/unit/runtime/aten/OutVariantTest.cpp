//===- OutVariantTest.cpp - which operators write where they are told --------===//

#include "runtime/aten/OutVariant.h"
#include "runtime/aten/Operator.h"
#include "runtime/aten/UnboxedOut.h"

#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>

#include "gtest/gtest.h"

using namespace cleave::runtime;

namespace {
OutVariant variantOf(const char *name) {
  auto handle = findOperator(name);
  EXPECT_TRUE(bool(handle)) << llvm::toString(handle.takeError());
  return findOutVariant(*handle);
}

// What LibTorch 2.11 has, of the operators that the example models call.
TEST(OutVariantTest, KernelsThatWriteIntoGivenTensors) {
  for (const char *name : {"aten::mm",
                           "aten::bmm",
                           "aten::addmm",
                           "aten::add.Tensor",
                           "aten::sub.Tensor",
                           "aten::mul.Tensor",
                           "aten::div.Tensor",
                           "aten::exp",
                           "aten::tanh",
                           "aten::rsqrt",
                           "aten::gelu",
                           "aten::gelu_backward",
                           "aten::silu",
                           "aten::_softmax",
                           "aten::_log_softmax",
                           "aten::_softmax_backward_data",
                           "aten::cat",
                           "aten::index.Tensor",
                           "aten::gather",
                           "aten::sum.dim_IntList",
                           "aten::mean.dim",
                           "aten::max.dim",
                           "aten::topk",
                           "aten::where.self",
                           "aten::eq.Tensor",
                           "aten::cumsum",
                           "aten::threshold_backward"}) {
    OutVariant variant = variantOf(name);
    ASSERT_EQ(variant.kind, OutVariantKind::Real) << name;
    EXPECT_EQ(variant.handle->operator_name().name, llvm::StringRef(name).split('.').first.str());
  }
}

TEST(OutVariantTest, GeneratedOverloadsThatCopy) {
  for (const char *name :
       {"aten::native_layer_norm", "aten::native_layer_norm_backward", "aten::convolution",
        "aten::convolution_backward", "aten::embedding", "aten::embedding_dense_backward",
        "aten::add.Scalar", "aten::mul.Scalar", "aten::clone", "aten::index_put",
        "aten::masked_fill.Scalar", "aten::native_batch_norm_backward", "aten::slice_backward"})
    EXPECT_EQ(variantOf(name).kind, OutVariantKind::Copying) << name;
}

TEST(OutVariantTest, OperatorsWithoutOne) {
  for (const char *name : {"aten::_scaled_dot_product_flash_attention_for_cpu",
                           "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                           "aten::_to_copy", "aten::view", "aten::t", "aten::split.Tensor"})
    EXPECT_EQ(variantOf(name).kind, OutVariantKind::None) << name;
}

TEST(OutVariantTest, FrequentSignaturesAreCalledUnboxed) {
  for (const char *name : {"aten::mm", "aten::add.Tensor", "aten::exp", "aten::addmm",
                           "aten::where.self", "aten::eq.Scalar"})
    EXPECT_TRUE(UnboxedOut::create(*variantOf(name).handle)) << name;
  // A string, a list of tensors, two results.
  for (const char *name : {"aten::gelu", "aten::cat", "aten::max.dim"})
    EXPECT_FALSE(UnboxedOut::create(*variantOf(name).handle)) << name;
}

TEST(OutVariantTest, UnboxedCallsCompute) {
  c10::InferenceMode inferenceMode;
  at::Tensor a = at::full({2, 2}, 3.0), b = at::full({2, 2}, 0.5), out = at::full({2, 2}, 0.0);
  const at::Tensor *operands[] = {&a, &b, &b};
  UnboxedOut::create(*variantOf("aten::mm").handle)->call(operands, nullptr, out);
  EXPECT_TRUE(out.equal(at::mm(a, b)));
  c10::Scalar two(2);
  UnboxedOut::create(*variantOf("aten::sub.Tensor").handle)->call(operands, &two, out);
  EXPECT_TRUE(out.equal(at::full({2, 2}, 2.0)));
  c10::Scalar factors[] = {2, 4};
  UnboxedOut::create(*variantOf("aten::addmm").handle)->call(operands, factors, out);
  EXPECT_TRUE(out.equal(at::full({2, 2}, 8.0)));
}
} // namespace
