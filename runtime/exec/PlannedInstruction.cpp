//===- PlannedInstruction.cpp - any instruction, with planned results --------===//

#include "runtime/exec/PlannedInstruction.h"

using namespace cleave::runtime;

PlannedInstruction::PlannedInstruction(std::unique_ptr<Instruction> instruction,
                                       std::vector<PlannedResult> plan, const Arena &arena)
    : inner(std::move(instruction)), planned(std::move(plan), arena) {
  for (size_t i = 0; i < planned.size(); ++i)
    if (planned[i].kind == PlannedResult::View)
      shown.push_back(planned[i].operandSlot);
}

void PlannedInstruction::execute(Frame &frame) {
  // Other operands are not held here: the only holder of a tensor may overwrite it.
  llvm::SmallVector<at::Tensor, 2> operands;
  if (!planned.isSettled())
    for (uint32_t slot : shown)
      if (frame.slots[slot].isTensor())
        operands.push_back(frame.slots[slot].toTensor());
  {
    Requests::Scope scope = planned.open();
    inner->execute(frame);
  }
  llvm::SmallVector<at::Tensor, 4> values = readResults(frame);
  if (planned.isSettled())
    planned.place(frame, values);
  else
    planned.settle(frame, values, operands);
}

llvm::SmallVector<at::Tensor, 4> PlannedInstruction::readResults(Frame &frame) const {
  llvm::SmallVector<at::Tensor, 4> values;
  for (size_t i = 0; i < planned.size(); ++i) {
    uint32_t slot = planned[i].destination.slot;
    bool isTensor = slot != Destination::kUnused && frame.slots[slot].isTensor();
    values.push_back(isTensor ? frame.slots[slot].toTensor() : at::Tensor());
  }
  return values;
}

void PlannedInstruction::reset() {
  inner->reset();
  planned.reset();
}
