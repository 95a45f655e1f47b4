//===- DeviceVariants.h - operators that a device has under other names --*- C++ -*-===//
//
// Programs are exported on the processor. Nearly all operators are the same everywhere; the few
// that are not are computed by what the device has instead:
//
// - attention: `_scaled_dot_product_flash_attention_for_cpu` and its backward, by cuDNN's where
//   eager mode would choose it, by flash attention, by memory-efficient attention where there is a
//   mask or the type is f32, by matrix products and a softmax where none takes the type or the
//   sizes. All agree on what is saved between the two: the output, and the logarithm of each row's
//   sum of exponentials.
// - layer norm of f16 and bf16, or with parameters of another type: in f32, rounded to the types
//   that the program says, as the processor's kernels do.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_DEVICEVARIANTS_H
#define CLEAVE_RUNTIME_EXEC_DEVICEVARIANTS_H

#include "runtime/exec/Kernels.h"

namespace cleave::runtime {

/// An instruction for an op of the aten dialect that this session's device has under another name
/// or computes otherwise; null if a call of the operator itself does.
BindResult bindDeviceVariant(Binder &binder, mlir::Operation *op);

/// Attention with additive `mask` (undefined: none), of queries [batch, heads, rows, width].
/// Queries come after as many keys as there are rows before them where `isCausal`.
struct Attention {
  at::Tensor query, key, value, mask;
  bool isCausal = false;
  std::optional<double> scale;
};
/// Which of a device's implementations takes it.
enum class AttentionKernel : uint8_t { Cudnn, Flash, Efficient, Products };
AttentionKernel chooseAttention(const Attention &attention, int capabilityMajor);

/// The output, and the logarithms [batch, heads, rows], in f32 unless the values are f64.
std::pair<at::Tensor, at::Tensor> attend(const Attention &attention, AttentionKernel kernel);
/// Gradients of query, key and value.
std::array<at::Tensor, 3> attendBackward(const Attention &attention, AttentionKernel kernel,
                                         const at::Tensor &gradient, const at::Tensor &output,
                                         const at::Tensor &logarithms);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_DEVICEVARIANTS_H
