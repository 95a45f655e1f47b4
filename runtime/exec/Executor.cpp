//===- Executor.cpp - runs a bound function -----------------------------------===//

#include "runtime/exec/Executor.h"

#include "llvm/ADT/ScopeExit.h"

#include <chrono>

using namespace cleave::runtime;

Executor::Executor(BoundFunction bound, Phase phase) : function(std::move(bound)), phase(phase) {
  frame.slots.resize(function.numSlots);
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

void Executor::runObserved(size_t &position, const Observers &observers) {
  using Clock = std::chrono::steady_clock;
  auto now = [] { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); };
  std::string where = (getPhaseName(phase) + ", before its first op").str();
  if (observers.checker)
    observers.checker->check(function.replicated[0], frame, where);
  for (; position < function.instructions.size(); ++position) {
    Instruction &instruction = *function.instructions[position];
    int64_t start = now();
    instruction.execute(frame);
    if (observers.onOp)
      observers.onOp({instruction.name, instruction.location, phase, start, now() - start});
    if (observers.fault == position)
      injectFault(position);
    if (!observers.checker)
      continue;
    where = (getPhaseName(phase) + ", op " + llvm::Twine(position) + ", " + describe(instruction))
                .str();
    observers.checker->check(function.replicated[position + 1], frame, where);
  }
}

llvm::Error Executor::run(std::vector<c10::IValue> &results, const Observers &observers) {
  // Not even a failed run leaves values behind.
  llvm::scope_exit clear([&] {
    for (c10::IValue &slot : frame.slots)
      slot = c10::IValue();
    frame.stack.clear();
  });
  size_t position = 0;
  try {
    c10::InferenceMode inferenceMode;
    if (observers.onOp || observers.checker)
      runObserved(position, observers);
    else
      for (size_t end = function.instructions.size(); position < end; ++position)
        function.instructions[position]->execute(frame);
    results.clear();
    for (const Operand &result : function.results)
      results.push_back(result.read(frame));
    return llvm::Error::success();
  } catch (CommunicationFailure &failure) {
    return std::move(failure.error);
  } catch (const std::exception &exception) {
    std::string where = position < function.instructions.size()
                            ? describe(*function.instructions[position]) + ": "
                            : "";
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   where + describeException(exception));
  }
}
