//===- Arena.cpp - the memory that lowered functions plan --------------------===//

#include "runtime/exec/Arena.h"

#include "llvm/Support/Alignment.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

using namespace cleave::runtime;

Arena::Arena(const Device &device, int64_t size, int64_t alignment)
    : place(device.torchDevice()), bytes(size) {
  if (size == 0)
    return;
  // The device's allocator aligns for vectors; plans may want more.
  constexpr int64_t kAllocatorAlignment = 64;
  int64_t extra = std::max<int64_t>(alignment - kAllocatorAlignment, 0);
  memory = at::empty({size + extra}, at::TensorOptions().dtype(at::kByte).device(place));
  base = static_cast<char *>(memory.mutable_data_ptr());
  base += llvm::offsetToAlignment(reinterpret_cast<uintptr_t>(base), llvm::Align(alignment));
}

at::Tensor Arena::tensorAt(void *address, at::IntArrayRef sizes, at::IntArrayRef strides,
                           at::ScalarType type) const {
  // Said, so that no driver is asked where the address is.
  return at::for_blob(address, sizes)
      .strides(strides)
      .target_device(place)
      .options(at::TensorOptions().dtype(type).device(place))
      .make_tensor();
}

at::Tensor Arena::tensorAt(void *address, at::IntArrayRef sizes, at::ScalarType type) const {
  return at::for_blob(address, sizes)
      .target_device(place)
      .options(at::TensorOptions().dtype(type).device(place))
      .make_tensor();
}

void Arena::poison(int64_t offset, int64_t length) const {
  if (length == 0)
    return;
  memory.narrow(0, (base - static_cast<char *>(memory.mutable_data_ptr())) + offset, length)
      .fill_(0xFF);
}
