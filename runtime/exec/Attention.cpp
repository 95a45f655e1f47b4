//===- Attention.cpp - attention on devices --------------------------------------===//

#include "runtime/exec/DeviceVariants.h"

#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <limits>

using namespace cleave::runtime;

static bool isHalf(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
}

/// Whether eager mode would choose cuDNN's, which is the fastest on some chips. Its backward takes
/// rows of at most 128 elements.
static bool prefersCudnn(const Attention &attention) {
  return attention.query.is_cuda() && attention.query.size(3) <= 128 &&
         at::_fused_sdp_choice(attention.query, attention.key, attention.value,
                               /*attn_mask=*/std::nullopt, /*dropout_p=*/0.0, attention.isCausal,
                               attention.scale) == int64_t(at::SDPBackend::cudnn_attention);
}

AttentionKernel cleave::runtime::chooseAttention(const Attention &attention, int capabilityMajor) {
  const at::Tensor &query = attention.query;
  int64_t width = query.size(3);
  bool isEven = width == attention.value.size(3);
  // Flash attention counts a causal mask from the last row and key, the processor from the first.
  bool isFlash = isHalf(query) && !attention.mask.defined() && capabilityMajor >= 8 &&
                 (!attention.isCausal || query.size(2) == attention.key.size(2));
  if (isFlash && isEven && width % 8 == 0 && width <= 256)
    return prefersCudnn(attention) ? AttentionKernel::Cudnn : AttentionKernel::Flash;
  // Rows of memory are read in pieces of 16 bytes.
  bool isEfficient = isHalf(query) || query.scalar_type() == at::kFloat;
  int64_t piece = 16 / int64_t(query.element_size());
  if (isEfficient && width % piece == 0 && attention.value.size(3) % piece == 0)
    return AttentionKernel::Efficient;
  return AttentionKernel::Products;
}

//===----------------------------------------------------------------------===//
// Memory as the kernels want it
//===----------------------------------------------------------------------===//

/// Elements of a row follow one another.
static at::Tensor withDenseRows(const at::Tensor &tensor) {
  return tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

/// Laid out as [batch, rows, heads, width].
static at::Tensor withRowsOutermost(const at::Tensor &tensor) {
  return tensor.transpose(1, 2).contiguous().transpose(1, 2);
}

/// As [batch, heads, rows, keys] of the query's type, rows beginning at multiples of 16 elements.
static std::optional<at::Tensor> asBias(const Attention &attention) {
  if (!attention.mask.defined())
    return std::nullopt;
  const at::Tensor &query = attention.query;
  at::Tensor bias = attention.mask.to(query.scalar_type());
  int64_t keys = attention.key.size(2);
  constexpr int64_t kAlignment = 16;
  if (bias.size(-1) == keys) {
    int64_t missing = (kAlignment - keys % kAlignment) % kAlignment;
    bias = missing ? at::constant_pad_nd(bias, {0, missing}, 0).narrow(-1, 0, keys)
                   : bias.contiguous();
  }
  return bias.expand({query.size(0), query.size(1), query.size(2), keys});
}

/// Rows of the logarithms begin at multiples of 32 elements, as the forward kernel lays them out.
static at::Tensor withAlignedRows(const at::Tensor &logarithms) {
  constexpr int64_t kAlignment = 32;
  if (logarithms.stride(-1) == 1 && logarithms.stride(1) % kAlignment == 0 &&
      logarithms.stride(0) % kAlignment == 0)
    return logarithms;
  int64_t rows = logarithms.size(2);
  int64_t missing = (kAlignment - rows % kAlignment) % kAlignment;
  return at::constant_pad_nd(logarithms, {0, missing}, 0).narrow(2, 0, rows);
}

//===----------------------------------------------------------------------===//
// By matrix products
//===----------------------------------------------------------------------===//

static double scaleOf(const Attention &attention) {
  return attention.scale.value_or(1.0 / std::sqrt(double(attention.query.size(3))));
}

/// Computed in f32 for narrower types.
static at::ScalarType computeType(const at::Tensor &tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// What the softmax is of.
static at::Tensor scores(const Attention &attention) {
  at::ScalarType type = computeType(attention.query);
  at::Tensor result = at::matmul(attention.query.to(type), attention.key.to(type).transpose(2, 3));
  result.mul_(scaleOf(attention));
  if (attention.mask.defined())
    result.add_(attention.mask);
  if (attention.isCausal) {
    at::Tensor later =
        at::ones({result.size(2), result.size(3)}, result.options().dtype(at::kBool)).triu(1);
    result.masked_fill_(later, -std::numeric_limits<double>::infinity());
  }
  return result;
}

static std::pair<at::Tensor, at::Tensor> attendByProducts(const Attention &attention) {
  at::Tensor all = scores(attention);
  at::Tensor logarithms = at::logsumexp(all, {3}, /*keepdim=*/true);
  at::Tensor weights = all.sub_(logarithms).exp_();
  at::Tensor output = at::matmul(weights, attention.value.to(weights.scalar_type()));
  return {output.to(attention.query.scalar_type()), logarithms.squeeze(3)};
}

static std::array<at::Tensor, 3> attendBackwardByProducts(const Attention &attention,
                                                          const at::Tensor &gradient,
                                                          const at::Tensor &output,
                                                          const at::Tensor &logarithms) {
  at::ScalarType type = computeType(attention.query);
  at::Tensor weights = scores(attention).sub_(logarithms.to(type).unsqueeze(3)).exp_();
  at::Tensor wide = gradient.to(type);
  at::Tensor ofValue = at::matmul(weights.transpose(2, 3), wide);
  at::Tensor ofWeights = at::matmul(wide, attention.value.to(type).transpose(2, 3));
  at::Tensor ofRows = at::mul(wide, output.to(type)).sum({3}, /*keepdim=*/true);
  at::Tensor ofScores = ofWeights.sub_(ofRows).mul_(weights).mul_(scaleOf(attention));
  at::Tensor ofQuery = at::matmul(ofScores, attention.key.to(type));
  at::Tensor ofKey = at::matmul(ofScores.transpose(2, 3), attention.query.to(type));
  return {ofQuery.to(attention.query.scalar_type()), ofKey.to(attention.key.scalar_type()),
          ofValue.to(attention.value.scalar_type())};
}

//===----------------------------------------------------------------------===//
// By kernels
//===----------------------------------------------------------------------===//

std::pair<at::Tensor, at::Tensor> cleave::runtime::attend(const Attention &attention,
                                                          AttentionKernel kernel) {
  if (kernel == AttentionKernel::Products)
    return attendByProducts(attention);
  at::Tensor query = withDenseRows(attention.query), key = withDenseRows(attention.key),
             value = withDenseRows(attention.value);
  if (kernel == AttentionKernel::Cudnn) {
    auto results = at::_scaled_dot_product_cudnn_attention(
        query, key, value, /*attn_bias=*/std::nullopt, /*compute_log_sumexp=*/true,
        /*dropout_p=*/0.0, attention.isCausal, /*return_debug_mask=*/false, attention.scale);
    return {std::get<0>(results), std::get<1>(results).view(query.sizes().slice(0, 3))};
  }
  if (kernel == AttentionKernel::Flash) {
    auto results = at::_scaled_dot_product_flash_attention(
        query, key, value, /*dropout_p=*/0.0, attention.isCausal, /*return_debug_mask=*/false,
        attention.scale);
    return {std::get<0>(results), std::get<1>(results)};
  }
  auto [output, logarithms, seed, offset] = at::_scaled_dot_product_efficient_attention(
      query, key, value, asBias(attention), /*compute_log_sumexp=*/true, /*dropout_p=*/0.0,
      attention.isCausal, attention.scale);
  return {output, logarithms.narrow(2, 0, query.size(2))};
}

std::array<at::Tensor, 3> cleave::runtime::attendBackward(const Attention &attention,
                                                          AttentionKernel kernel,
                                                          const at::Tensor &gradient,
                                                          const at::Tensor &output,
                                                          const at::Tensor &logarithms) {
  if (kernel == AttentionKernel::Products)
    return attendBackwardByProducts(attention, gradient, output, logarithms);
  at::Tensor query = withDenseRows(attention.query), key = withDenseRows(attention.key),
             value = withDenseRows(attention.value);
  // The state of the random numbers of dropout, of which there is none.
  at::Tensor state = at::empty({}, query.options().dtype(at::kLong));
  if (kernel == AttentionKernel::Cudnn) {
    auto [ofQuery, ofKey, ofValue] = at::_scaled_dot_product_cudnn_attention_backward(
        withDenseRows(gradient), query, key, value, output, logarithms.contiguous().unsqueeze(3),
        state, state, /*attn_bias=*/at::Tensor(), /*cum_seq_q=*/at::Tensor(),
        /*cum_seq_k=*/at::Tensor(), query.size(2), key.size(2), /*dropout_p=*/0.0,
        attention.isCausal, attention.scale);
    return {ofQuery, ofKey, ofValue};
  }
  if (kernel == AttentionKernel::Flash) {
    auto [ofQuery, ofKey, ofValue] = at::_scaled_dot_product_flash_attention_backward(
        withDenseRows(gradient), query, key, value, output, logarithms.contiguous(),
        /*cum_seq_q=*/at::Tensor(), /*cum_seq_k=*/at::Tensor(), query.size(2), key.size(2),
        /*dropout_p=*/0.0, attention.isCausal, state, state, attention.scale);
    return {ofQuery, ofKey, ofValue};
  }
  auto [ofQuery, ofKey, ofValue, ofBias] = at::_scaled_dot_product_efficient_attention_backward(
      gradient, query, key, value, asBias(attention).value_or(at::Tensor()),
      withRowsOutermost(output), withAlignedRows(logarithms), state, state, /*dropout_p=*/0.0,
      {true, true, true, false}, attention.isCausal, attention.scale);
  return {ofQuery, ofKey, ofValue};
}
