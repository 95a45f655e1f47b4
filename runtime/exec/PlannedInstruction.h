//===- PlannedInstruction.h - any instruction, with planned results -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_PLANNEDINSTRUCTION_H
#define CLEAVE_RUNTIME_EXEC_PLANNEDINSTRUCTION_H

#include "runtime/exec/PlannedResults.h"

namespace cleave::runtime {

/// Runs an instruction that knows nothing of plans: answers its requests for memory, and copies
/// what it has made elsewhere.
class PlannedInstruction : public Instruction {
public:
  PlannedInstruction(std::unique_ptr<Instruction> inner, std::vector<PlannedResult> plan,
                     const Arena &arena);

  void execute(Frame &frame) override;
  void refresh(Frame &frame) override { inner->refresh(frame); }
  void reset() override;
  bool isIdle() const override { return planned.isSettled() && planned.areAllViews(); }

private:
  llvm::SmallVector<at::Tensor, 4> readResults(Frame &frame) const;

  std::unique_ptr<Instruction> inner;
  PlannedResults planned;
  /// Slots of operands whose memory results may show.
  std::vector<uint32_t> shown;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_PLANNEDINSTRUCTION_H
