//===- Layouts.h - tensors that keep their strides on the way -----*- C++ -*-===//
//
// A program's types have no strides, but views and kernels' results depend on them: the stage that
// receives a value must see it as the one that made it did. Elements travel densely; the receiver
// puts them where the strides say, gaps and repetitions included.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PIPELINE_LAYOUTS_H
#define CLEAVE_RUNTIME_PIPELINE_LAYOUTS_H

#include "runtime/aten/Facade.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave::runtime {

using Strides = llvm::SmallVector<int64_t, 4>;

/// The strides with which a tensor is sent: its own, or those of a contiguous one where elements
/// overlap otherwise than by repetition (stride 0).
Strides stridesToSend(const at::Tensor &tensor);

/// Gives memory for a copy: so many elements, uninitialised, in one dimension.
using TakeMemory = llvm::function_ref<at::Tensor(int64_t)>;

/// The elements of `tensor`, which has one of these layouts, as one dimension: a view where they
/// are dense in memory, else a copy. `strides` is what the receiver knows.
at::Tensor pack(const at::Tensor &tensor, const Strides &strides, TakeMemory take);

/// The tensor of these sizes and strides whose elements `packed` has: itself, or a copy.
at::Tensor unpack(at::Tensor packed, llvm::ArrayRef<int64_t> sizes, const Strides &strides,
                  TakeMemory take);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PIPELINE_LAYOUTS_H
