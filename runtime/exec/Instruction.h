//===- Instruction.h - frames, and what runs over them -------------*- C++ -*-===//
//
// A function is bound once to a flat list of instructions. Each reads and writes numbered slots of
// a frame; nothing is looked up by name and no graph is consulted while it runs.
//
// Lifetimes are in the operands: the last use of a slot *takes* the value, so that memory is free
// as soon as the instruction that needs it last has finished, and an instruction can tell that
// they hold the only reference and overwrite it (`isSoleOwner`).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_INSTRUCTION_H
#define CLEAVE_RUNTIME_EXEC_INSTRUCTION_H

#include "runtime/aten/Facade.h"
#include "runtime/device/StreamKind.h"

#include <vector>

namespace cleave::runtime {

/// Values of one function's run. An empty slot (None) is a value not yet made, already taken, or an
/// empty accumulator.
struct Frame {
  std::vector<c10::IValue> slots;
  /// Reused by every boxed call.
  std::vector<c10::IValue> stack;

  /// Whether a slot always holds the same tensor, over planned memory: it is not taken.
  bool isFixed(uint32_t slot) const { return slot < fixed.size() && fixed[slot]; }
  void fix(uint32_t slot) {
    if (slot < fixed.size())
      fixed[slot] = true;
  }
  /// By slot, in functions that plan memory; else empty.
  std::vector<uint8_t> fixed;
  /// Communication that was started in this run and that no event has been waited for, in functions
  /// that have events.
  std::vector<c10::IValue> started;
};

/// A use of a slot.
struct Operand {
  uint32_t slot = 0;
  /// The last use: the value leaves the slot.
  bool take = false;

  c10::IValue read(Frame &frame) const {
    return take && !frame.isFixed(slot) ? std::move(frame.slots[slot]) : frame.slots[slot];
  }
  at::Tensor tensor(Frame &frame) const { return read(frame).toTensor(); }
  /// After a use in place.
  void release(Frame &frame) const {
    if (take && !frame.isFixed(slot))
      frame.slots[slot] = c10::IValue();
  }
};

/// Where a result goes; nowhere if it is unused.
struct Destination {
  static constexpr uint32_t kUnused = ~0u;
  uint32_t slot = kUnused;

  void write(Frame &frame, c10::IValue value) const {
    if (slot != kUnused)
      frame.slots[slot] = std::move(value);
  }
};

/// A value that may be overwritten and read as flat memory: contiguous, and not shared.
inline at::Tensor own(at::Tensor tensor) {
  if (tensor.is_contiguous() && isSoleOwner(tensor))
    return tensor;
  return tensor.clone(at::MemoryFormat::Contiguous);
}

/// Thrown by instructions that communicate: carries the error, whose type tells the launcher which
/// rank is to blame, past LibTorch's exceptions.
struct CommunicationFailure {
  llvm::Error error;
};

class Instruction {
public:
  virtual ~Instruction() = default;
  /// May throw; `Executor::run` adds which op it was.
  virtual void execute(Frame &frame) = 0;
  /// Before what a device has recorded is replayed: recomputes what the host knows, with only such
  /// values in the frame.
  virtual void refresh(Frame &) {}

  /// In functions that plan memory: the next run is like the first one, since values of other
  /// layouts come in.
  virtual void reset() {}
  /// Whether the runs to come do nothing, because all results are fixed and shown already.
  virtual bool isIdle() const { return false; }

  /// For messages and traces.
  std::string name;     ///< "aten.mm"
  std::string location; ///< "h.0.attn.c_attn (gpt.py:57)", may be empty
  /// On a device: the stream that it runs on.
  StreamKind stream = StreamKind::Compute;
  /// The slot of its first used result.
  std::optional<uint32_t> firstResult;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_INSTRUCTION_H
