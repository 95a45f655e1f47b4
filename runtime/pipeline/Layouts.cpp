//===- Layouts.cpp - tensors that keep their strides on the way ---------------===//

#include "runtime/pipeline/Layouts.h"

#include "llvm/ADT/STLExtras.h"

#include <ATen/ops/empty_strided.h>

using namespace cleave::runtime;

namespace {
enum class Form { Dense, Sparse, Overlapping };
} // namespace

/// Whether elements fill a range of memory, leave gaps (or repeat), or overlap.
static Form classify(llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> strides) {
  llvm::SmallVector<std::pair<int64_t, int64_t>, 4> dims; // stride, size
  bool isDense = true;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides)) {
    if (size == 0)
      return Form::Dense;
    if (size == 1)
      continue;
    isDense &= stride != 0;
    if (stride != 0)
      dims.emplace_back(stride, size);
  }
  llvm::sort(dims);
  int64_t end = 1;
  for (auto [stride, size] : dims) {
    if (stride < end)
      return Form::Overlapping;
    isDense &= stride == end;
    end = stride * (size - 1) + end;
  }
  return isDense ? Form::Dense : Form::Sparse;
}

Strides cleave::runtime::stridesToSend(const at::Tensor &tensor) {
  if (classify(tensor.sizes(), tensor.strides()) != Form::Overlapping)
    return Strides(tensor.strides().begin(), tensor.strides().end());
  at::Tensor contiguous = tensor.contiguous();
  return Strides(contiguous.strides().begin(), contiguous.strides().end());
}

at::Tensor cleave::runtime::pack(const at::Tensor &tensor, const Strides &strides) {
  at::IntArrayRef wanted(strides.data(), strides.size());
  if (classify(tensor.sizes(), wanted) != Form::Dense)
    return tensor.contiguous().view({tensor.numel()});
  at::Tensor dense = tensor;
  if (tensor.strides() != wanted) {
    dense = at::empty_strided(tensor.sizes(), wanted, tensor.options());
    dense.copy_(tensor);
  }
  return dense.as_strided({dense.numel()}, {1}, dense.storage_offset());
}

at::Tensor cleave::runtime::unpack(at::Tensor packed, llvm::ArrayRef<int64_t> shape,
                                   const Strides &strides) {
  at::IntArrayRef sizes(shape.data(), shape.size()), wanted(strides.data(), strides.size());
  if (classify(shape, strides) == Form::Dense)
    return packed.as_strided(sizes, wanted);
  at::Tensor elements = packed.view(sizes);
  for (auto [dim, stride] : llvm::enumerate(strides))
    if (stride == 0 && shape[dim] > 1)
      elements = elements.narrow(int64_t(dim), 0, 1);
  at::Tensor placed = at::empty_strided(elements.sizes(), wanted, elements.options());
  placed.copy_(elements);
  return placed.as_strided(sizes, wanted);
}
