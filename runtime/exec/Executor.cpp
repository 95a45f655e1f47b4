//===- Executor.cpp - runs a bound function -----------------------------------===//

#include "runtime/exec/Executor.h"
#include "runtime/device/Device.h"

#include "llvm/ADT/ScopeExit.h"

#include <chrono>

using namespace cleave::runtime;

Executor::Executor(BoundFunction bound, Phase phase, const Arena *arena)
    : function(std::move(bound)), phase(phase), arena(arena) {
  frame.slots.resize(function.numSlots);
  if (function.isLowered)
    frame.fixed.resize(function.numSlots);
  layouts.resize(function.numArguments);
  frame.stack.reserve(32);
}

/// "aten.mm at h.0.attn.c_attn (gpt.py:57)"
static std::string describe(const Instruction &instruction) {
  std::string text = instruction.name;
  if (!instruction.location.empty())
    text += " at " + instruction.location;
  return text;
}

/// Flips the lowest bit of the first element of what an instruction has just made.
void Executor::injectFault(size_t position) {
  std::optional<uint32_t> slot = function.instructions[position]->firstResult;
  if (!slot || !frame.slots[*slot].isTensor())
    return;
  const at::Tensor &right = frame.slots[*slot].toTensor();
  at::Tensor wrong = right.to(at::kCPU).clone(at::MemoryFormat::Contiguous);
  if (wrong.numel() > 0)
    *static_cast<uint8_t *>(wrong.mutable_data_ptr()) ^= 1;
  frame.slots[*slot] = wrong.to(right.device());
}

void Executor::executeOnStream(Instruction &instruction) {
  if (!function.streams || instruction.stream == StreamKind::Compute)
    return instruction.execute(frame);
  Device::StreamScope scope(*function.streams, instruction.stream);
  instruction.execute(frame);
}

void Executor::runObserved(Instruction *&current, const Observers &observers) {
  using Clock = std::chrono::steady_clock;
  auto now = [] { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); };
  auto check = [&](size_t list, const std::string &where) {
    observers.checker->check(function.replicated[list], frame, where);
    // Planned memory is soon another value's; to accumulators and parameters ops write in place.
    if (function.isLowered || list == 0)
      observers.checker->compare();
  };
  if (observers.checker) {
    observers.checker->begin();
    check(0, (getPhaseName(phase) + ", before its first op").str());
  }
  for (size_t position = 0; position < function.instructions.size(); ++position) {
    Instruction &instruction = *function.instructions[position];
    current = &instruction;
    int64_t start = now();
    if (observers.names)
      observers.names->pushRange(instruction.name.c_str());
    executeOnStream(instruction);
    poisonAfter(position);
    if (observers.names)
      observers.names->popRange();
    // What a device has only been given takes no time: it is waited for.
    if (observers.onOp) {
      if (observers.device)
        observers.device->synchronize();
      observers.onOp({instruction.name, instruction.location, phase, start, now() - start});
    }
    if (observers.fault == position)
      injectFault(position);
    if (observers.checker)
      check(position + 1,
            (getPhaseName(phase) + ", op " + llvm::Twine(position) + ", " + describe(instruction))
                .str());
  }
  if (observers.checker)
    observers.checker->compare();
}

/// Where arguments of other layouts come in than before, what the instructions have prepared is of
/// no use any more.
void Executor::noteLayouts() {
  bool isNew = false;
  for (uint32_t i = 0; i < function.numArguments; ++i) {
    if (!frame.slots[i].isTensor())
      continue;
    at::IntArrayRef strides = frame.slots[i].toTensor().strides();
    if (layouts[i] && llvm::equal(*layouts[i], strides))
      continue;
    isNew |= layouts[i].has_value();
    layouts[i].emplace(strides.begin(), strides.end());
  }
  if (!isNew)
    return;
  busy.clear();
  for (size_t slot = 0; slot < frame.slots.size(); ++slot)
    if (frame.isFixed(slot)) {
      frame.fixed[slot] = false;
      frame.slots[slot] = c10::IValue();
    }
  for (const std::unique_ptr<Instruction> &instruction : function.instructions)
    instruction->reset();
}

void Executor::poisonAfter(size_t position) const {
  if (function.dead.empty())
    return;
  for (const DeadRange &range : function.dead[position])
    poison(range.offset, range.bytes);
}

/// The plan's events are between the program's ops; this is none of them.
void Executor::poison(int64_t offset, int64_t bytes) const {
  c10::InferenceMode inferenceMode;
  if (function.streams)
    function.streams->synchronize();
  arena->poison(offset, bytes);
  if (function.streams)
    function.streams->synchronize();
}

/// `current`: the instruction that runs.
void Executor::runPlanned(Instruction *&current) {
  if (!busy.empty()) {
    for (Instruction *instruction : busy) {
      current = instruction;
      executeOnStream(*instruction);
    }
    return;
  }
  for (const std::unique_ptr<Instruction> &instruction : function.instructions) {
    current = instruction.get();
    executeOnStream(*instruction);
  }
  for (const std::unique_ptr<Instruction> &instruction : function.instructions)
    if (!instruction->isIdle())
      busy.push_back(instruction.get());
}

void Executor::refresh() {
  c10::InferenceMode inferenceMode;
  for (std::unique_ptr<Instruction> &instruction : function.instructions)
    instruction->refresh(frame);
  clearFrame();
}

void Executor::clearFrame() {
  for (size_t slot = 0; slot < frame.slots.size(); ++slot)
    if (!frame.isFixed(slot))
      frame.slots[slot] = c10::IValue();
}

llvm::Error Executor::run(std::vector<c10::IValue> &results, const Observers &observers) {
  // Not even a failed run leaves values behind.
  llvm::scope_exit clear([&] {
    clearFrame();
    frame.stack.clear();
    frame.started.clear();
  });
  Instruction *current = nullptr;
  try {
    c10::InferenceMode inferenceMode;
    if (function.isLowered)
      noteLayouts();
    bool poisons = !function.dead.empty();
    if (poisons)
      poison(0, function.arenaBytes);
    if (observers.onOp || observers.checker || observers.names || poisons)
      runObserved(current, observers);
    else if (function.isLowered)
      runPlanned(current);
    else if (function.streams)
      for (const std::unique_ptr<Instruction> &instruction : function.instructions) {
        current = instruction.get();
        executeOnStream(*instruction);
      }
    else
      for (const std::unique_ptr<Instruction> &instruction : function.instructions) {
        current = instruction.get();
        instruction->execute(frame);
      }
    current = nullptr;
    results.clear();
    for (const Operand &result : function.results)
      results.push_back(result.read(frame));
    return llvm::Error::success();
  } catch (CommunicationFailure &failure) {
    return std::move(failure.error);
  } catch (const std::exception &exception) {
    std::string where = current ? describe(*current) + ": " : "";
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   where + describeException(exception));
  }
}
