//===- Layouts.cpp - tensors that keep their strides on the way ---------------===//

#include "runtime/pipeline/Layouts.h"

#include "llvm/ADT/STLExtras.h"

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

at::Tensor cleave::runtime::pack(const at::Tensor &tensor, const Strides &strides,
                                 TakeMemory take) {
  at::IntArrayRef wanted(strides.data(), strides.size());
  bool isDense = classify(tensor.sizes(), wanted) == Form::Dense;
  if (isDense ? tensor.strides() == wanted : tensor.is_contiguous())
    return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset());
  at::Tensor packed = take(tensor.numel());
  at::Tensor shaped =
      isDense ? packed.as_strided(tensor.sizes(), wanted) : packed.view(tensor.sizes());
  shaped.copy_(tensor);
  return packed;
}

at::Tensor cleave::runtime::unpack(at::Tensor packed, llvm::ArrayRef<int64_t> shape,
                                   const Strides &strides, TakeMemory take) {
  at::IntArrayRef sizes(shape.data(), shape.size()), wanted(strides.data(), strides.size());
  if (classify(shape, strides) == Form::Dense)
    return packed.as_strided(sizes, wanted);
  at::Tensor elements = packed.view(sizes);
  int64_t extent = 1;
  for (auto [dim, stride] : llvm::enumerate(strides)) {
    if (stride == 0 && shape[dim] > 1)
      elements = elements.narrow(int64_t(dim), 0, 1);
    extent += (elements.size(int64_t(dim)) - 1) * stride;
  }
  at::Tensor memory = take(extent);
  memory.as_strided(elements.sizes(), wanted).copy_(elements);
  return memory.as_strided(sizes, wanted);
}
