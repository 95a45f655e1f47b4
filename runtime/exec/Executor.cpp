//===- Executor.cpp - runs a bound function -----------------------------------===//

#include "runtime/exec/Executor.h"

#include "llvm/ADT/ScopeExit.h"

#include <chrono>

using namespace cleave::runtime;

Executor::Executor(BoundFunction bound, Phase phase) : function(std::move(bound)), phase(phase) {
  frame.slots.resize(function.numSlots);
  frame.stack.reserve(32);
}

/// "aten.mm at h.0.attn.c_attn (gpt.py:57): "
static std::string describe(const Instruction &instruction) {
  std::string text = instruction.name;
  if (!instruction.location.empty())
    text += " at " + instruction.location;
  return text + ": ";
}

void Executor::runTraced(size_t &position, const std::function<void(const OpEvent &)> &onOp) {
  using Clock = std::chrono::steady_clock;
  auto now = [] { return Clock::now().time_since_epoch() / std::chrono::nanoseconds(1); };
  for (; position < function.instructions.size(); ++position) {
    Instruction &instruction = *function.instructions[position];
    int64_t start = now();
    instruction.execute(frame);
    onOp({instruction.name, instruction.location, phase, start, now() - start});
  }
}

llvm::Error Executor::run(std::vector<c10::IValue> &results,
                          const std::function<void(const OpEvent &)> &onOp) {
  // Not even a failed run leaves values behind.
  llvm::scope_exit clear([&] {
    for (c10::IValue &slot : frame.slots)
      slot = c10::IValue();
    frame.stack.clear();
  });
  size_t position = 0;
  try {
    c10::InferenceMode inferenceMode;
    if (onOp)
      runTraced(position, onOp);
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
    std::string where =
        position < function.instructions.size() ? describe(*function.instructions[position]) : "";
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   where + describeException(exception));
  }
}
