//===- HostViews.h - what callers read and write of a session ------*- C++ -*-===//
//
// A session's tensors may be on a device; callers see memory of the host. On the processor that is
// the tensor's own. Otherwise it is a copy, made when it is first asked for and valid until the
// next run, before which what was written is copied back.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_HOSTVIEWS_H
#define CLEAVE_RUNTIME_EXEC_HOSTVIEWS_H

#include "runtime/device/Device.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace cleave::runtime {

class HostViews {
public:
  void setDevice(const Device &where) { device = &where; }
  /// A new tensor, whose memory nothing has written: its first view before a run copies nothing.
  void noteUnwritten(at::Tensor &tensor) { unwritten.insert(&tensor); }

  /// The data of a tensor of the session's state, which is contiguous and stays where it is until
  /// `close`. May throw.
  TensorRef forWriting(at::Tensor &tensor);
  ConstTensorRef forReading(at::Tensor &tensor);
  /// Copies back what was written and ends all views. May throw.
  void close();
  /// Whether there is anything to close.
  bool isOpen() const { return !views.empty() || !unwritten.empty(); }

private:
  struct View {
    at::Tensor host;
    bool isWritten = false;
  };
  View &open(at::Tensor &tensor);

  const Device *device = &Device::host();
  llvm::DenseMap<at::Tensor *, View> views;
  llvm::DenseSet<at::Tensor *> unwritten;
};

/// Inputs of a session on a device: what callers fill, in page-locked memory, and its way to the
/// device, on which the next microbatch's data must not overtake the last one's.
class StagedInputs {
public:
  void setDevice(const Device &where) { device = &where; }
  bool isUsed() const { return !device->isHost(); }
  /// For each of the session's inputs on this rank.
  void add(const at::Tensor &input);
  /// So many microbatches' data at once; `select` says which one the calls below are for.
  void setSlots(int64_t count);
  void select(int64_t slot) { selected = slot; }
  /// Where the caller writes input `index`, once the copy before is complete.
  TensorRef forWriting(size_t index);
  /// Enqueues the copies to `inputs`, tensors on the device by the same indices.
  void send(llvm::MutableArrayRef<at::Tensor> inputs);
  /// Everything that was sent is complete when the device has done what it has been given.
  void noteSent() { sent = device->record(StreamKind::Compute); }

private:
  const Device *device = &Device::host();
  /// By slot and input.
  std::vector<std::vector<at::Tensor>> staging = std::vector<std::vector<at::Tensor>>(1);
  int64_t selected = 0;
  std::optional<c10::Event> sent;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_HOSTVIEWS_H
