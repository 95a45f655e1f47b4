//===- TransferBuffers.h - memory that transfers use again and again -*- C++ -*-===//
//
// A rank's receives and packed sends have slots (lib/schedule/model/Slots.h); each slot is memory
// that is allocated once. A tensor in it owns its part as any tensor does: functions may overwrite
// it, keep it or pass it on, and when the last holder is gone the slot is free. A value that
// outlives its slot's time (a gradient that becomes an accumulator, a value that is sent on) keeps
// its memory, and the next one takes a spare, which is also kept: after the first steps nothing is
// allocated.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_PIPELINE_TRANSFERBUFFERS_H
#define CLEAVE_RUNTIME_PIPELINE_TRANSFERBUFFERS_H

#include "runtime/device/Device.h"

#include "llvm/ADT/SmallVector.h"

namespace cleave::runtime {

class TransferBuffers {
public:
  /// The pool holds each buffer once, every value in it once more.
  struct Buffer : c10::intrusive_ptr_target {
    explicit Buffer(at::Tensor memory) : memory(std::move(memory)) {}
    at::Tensor memory; ///< bytes
  };
  using Ref = c10::intrusive_ptr<Buffer>;

  explicit TransferBuffers(const Device &device) : device(device) {}

  /// Adds slots of these sizes; returns the number of the first.
  unsigned addSlots(llvm::ArrayRef<int64_t> bytes);

  /// Memory of one slot, or a spare of `bytes` if a value in it is still referenced. May throw.
  Ref take(unsigned slot, int64_t bytes);
  /// Any spare. May throw.
  Ref takeSpare(int64_t bytes);

  /// `numel` elements from `offset` (in bytes) on, which hold the buffer as long as they live.
  static at::Tensor place(const Ref &buffer, int64_t offset, int64_t numel, c10::ScalarType type);

private:
  Ref make(int64_t bytes);

  const Device &device;
  std::vector<int64_t> slotBytes;
  std::vector<Ref> slots, spares; ///< a slot has memory from its first use on
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PIPELINE_TRANSFERBUFFERS_H
