//===- Message.cpp - Several tensors as one piece of memory ----------------===//

#include "Message.h"

#include <ATen/ATen.h>

using namespace cleave::runtime;

static constexpr int64_t kAlignment = 16;

void MessageLayout::add(at::ScalarType type, llvm::ArrayRef<int64_t> shape) {
  int64_t size = c10::elementSize(type);
  for (int64_t each : shape)
    size *= each;
  entries.push_back({type, shape.vec(), bytes, size});
  bytes = (bytes + size + kAlignment - 1) / kAlignment * kAlignment;
}

void MessageLayout::write(at::Tensor message, llvm::ArrayRef<at::Tensor> tensors) const {
  for (size_t i = 0; i < entries.size(); ++i)
    message.narrow(0, entries[i].begin, entries[i].bytes)
        .view(entries[i].type)
        .view(entries[i].shape)
        .copy_(tensors[i]);
}

std::vector<at::Tensor> MessageLayout::read(const at::Tensor &message) const {
  std::vector<at::Tensor> tensors;
  for (const Entry &entry : entries)
    tensors.push_back(
        message.narrow(0, entry.begin, entry.bytes).view(entry.type).view(entry.shape));
  return tensors;
}
