//===- TransferBuffers.cpp - memory that transfers use again and again --------===//

#include "runtime/pipeline/TransferBuffers.h"

#include <ATen/ops/from_blob.h>

using namespace cleave::runtime;

static bool isFree(const TransferBuffers::Ref &buffer) {
  return buffer.use_count() == 1;
}

unsigned TransferBuffers::addSlots(llvm::ArrayRef<int64_t> bytes) {
  auto first = unsigned(slots.size());
  slotBytes.insert(slotBytes.end(), bytes.begin(), bytes.end());
  slots.resize(slotBytes.size());
  return first;
}

TransferBuffers::Ref TransferBuffers::make(int64_t bytes) {
  return c10::make_intrusive<Buffer>(device.allocate({DType::U8, {bytes}}));
}

TransferBuffers::Ref TransferBuffers::take(unsigned slot, int64_t bytes) {
  Ref &buffer = slots[slot];
  if (!buffer)
    buffer = make(slotBytes[slot]);
  return isFree(buffer) ? buffer : takeSpare(bytes);
}

TransferBuffers::Ref TransferBuffers::takeSpare(int64_t bytes) {
  for (const Ref &spare : spares)
    if (isFree(spare) && spare->memory.numel() >= bytes)
      return spare;
  return spares.emplace_back(make(bytes));
}

at::Tensor TransferBuffers::place(const Ref &buffer, int64_t offset, int64_t numel,
                                  c10::ScalarType type) {
  const at::Tensor &memory = buffer->memory;
  auto *data = static_cast<char *>(memory.mutable_data_ptr()) + offset;
  return at::from_blob(data, {numel}, [held = buffer](void *) {}, memory.options().dtype(type));
}
