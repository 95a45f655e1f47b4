//===- HostViews.cpp - what callers read and write of a session ----------------===//

#include "runtime/exec/HostViews.h"

#include <ATen/ops/empty_like.h>

using namespace cleave::runtime;

HostViews::View &HostViews::open(at::Tensor &tensor) {
  auto [found, isNew] = views.try_emplace(&tensor);
  View &view = found->second;
  if (isNew) {
    c10::InferenceMode inferenceMode;
    // Not page-locked: there is as much of it as state, for files and once.
    view.host = allocate(*typeOf(tensor));
    if (!unwritten.erase(&tensor))
      view.host.copy_(tensor);
  }
  return view;
}

TensorRef HostViews::forWriting(at::Tensor &tensor) {
  if (device->isHost())
    return refTo(tensor);
  View &view = open(tensor);
  view.isWritten = true;
  return refTo(view.host);
}

ConstTensorRef HostViews::forReading(at::Tensor &tensor) {
  return device->isHost() ? refTo(tensor) : refTo(open(tensor).host);
}

void HostViews::close() {
  c10::InferenceMode inferenceMode;
  for (auto &[tensor, view] : views)
    if (view.isWritten)
      tensor->copy_(view.host);
  views.clear();
  unwritten.clear();
}

void StagedInputs::add(const at::Tensor &input) {
  if (isUsed())
    staging[0].push_back(input.defined() ? device->allocateStaging(*typeOf(input)) : at::Tensor());
}

void StagedInputs::setSlots(int64_t count) {
  while (int64_t(staging.size()) < count) {
    std::vector<at::Tensor> &slot = staging.emplace_back();
    for (const at::Tensor &staged : staging[0])
      slot.push_back(staged.defined() ? device->allocateStaging(*typeOf(staged)) : at::Tensor());
  }
}

TensorRef StagedInputs::forWriting(size_t index) {
  if (sent) {
    sent->synchronize();
    sent.reset();
  }
  return refTo(staging[selected][index]);
}

void StagedInputs::send(llvm::MutableArrayRef<at::Tensor> inputs) {
  for (auto [input, staged] : llvm::zip_equal(inputs, staging[selected]))
    if (input.defined())
      input.copy_(staged, /*non_blocking=*/true);
  if (!device->isRecording())
    noteSent();
}
