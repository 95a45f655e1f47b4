//===- AttentionTest.cpp - attention of devices, where a processor can compute it --===//

#include "runtime/exec/DeviceVariants.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

using namespace cleave::runtime;

namespace {
struct Case {
  at::ScalarType type;
  int64_t rows, keys, width;
  bool isCausal, hasMask;
};

Attention make(const Case &each) {
  at::TensorOptions options = at::TensorOptions().dtype(each.type);
  Attention attention;
  attention.query = at::randn({2, 3, each.rows, each.width}, options);
  attention.key = at::randn({2, 3, each.keys, each.width}, options);
  attention.value = at::randn({2, 3, each.keys, each.width}, options);
  if (each.hasMask)
    attention.mask = at::randn({2, 1, each.rows, each.keys}, options);
  attention.isCausal = each.isCausal;
  attention.scale = 0.3;
  return attention;
}

double distance(const at::Tensor &a, const at::Tensor &b) {
  at::Tensor wide = b.to(at::kDouble);
  return ((a.to(at::kDouble) - wide).abs().max() / wide.abs().max()).item<double>();
}
} // namespace

/// The products agree with the processor's operator, what is saved and gradients included.
TEST(Attention, ProductsAreTheProcessorsAttention) {
  at::manual_seed(0);
  c10::InferenceMode inferenceMode;
  for (const Case &each :
       {Case{at::kDouble, 17, 17, 8, false, false}, Case{at::kDouble, 17, 17, 8, true, false},
        Case{at::kDouble, 5, 9, 6, false, true}, Case{at::kFloat, 33, 33, 20, true, false},
        Case{at::kFloat, 12, 31, 16, false, true}}) {
    double tolerance = each.type == at::kDouble ? 1e-12 : 1e-5;
    Attention attention = make(each);
    std::optional<at::Tensor> mask;
    if (attention.mask.defined())
      mask = attention.mask;
    auto [output, logarithms] = at::_scaled_dot_product_flash_attention_for_cpu(
        attention.query, attention.key, attention.value, 0.0, each.isCausal, mask, attention.scale);
    auto [ours, ourLogarithms] = attend(attention, AttentionKernel::Products);
    EXPECT_LT(distance(ours, output), tolerance);
    EXPECT_LT(distance(ourLogarithms, logarithms), tolerance);
    EXPECT_EQ(ourLogarithms.sizes(), logarithms.sizes());

    at::Tensor gradient = at::randn_like(output);
    auto [ofQuery, ofKey, ofValue] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, attention.query, attention.key, attention.value, output, logarithms, 0.0,
        each.isCausal, mask, attention.scale);
    std::array<at::Tensor, 3> found =
        attendBackward(attention, AttentionKernel::Products, gradient, ours, ourLogarithms);
    EXPECT_LT(distance(found[0], ofQuery), 10 * tolerance);
    EXPECT_LT(distance(found[1], ofKey), 10 * tolerance);
    EXPECT_LT(distance(found[2], ofValue), 10 * tolerance);
  }
}

TEST(Attention, ChoosesWhatTakesIt) {
  auto choose = [](Case each, int capability) { return chooseAttention(make(each), capability); };
  EXPECT_EQ(choose({at::kBFloat16, 8, 8, 64, true, false}, 9), AttentionKernel::Flash);
  EXPECT_EQ(choose({at::kHalf, 8, 16, 64, false, false}, 9), AttentionKernel::Flash);
  // A causal mask that is not square, a mask, an old chip, a width of 16 bytes and no more.
  EXPECT_EQ(choose({at::kHalf, 8, 16, 64, true, false}, 9), AttentionKernel::Efficient);
  EXPECT_EQ(choose({at::kHalf, 8, 8, 64, false, true}, 9), AttentionKernel::Efficient);
  EXPECT_EQ(choose({at::kHalf, 8, 8, 64, false, false}, 7), AttentionKernel::Efficient);
  EXPECT_EQ(choose({at::kHalf, 8, 8, 512, false, false}, 9), AttentionKernel::Efficient);
  EXPECT_EQ(choose({at::kFloat, 8, 8, 64, true, false}, 9), AttentionKernel::Efficient);
  EXPECT_EQ(choose({at::kFloat, 8, 8, 6, true, false}, 9), AttentionKernel::Products);
  EXPECT_EQ(choose({at::kDouble, 8, 8, 64, true, false}, 9), AttentionKernel::Products);
}
