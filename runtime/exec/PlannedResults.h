//===- PlannedResults.h - results where a lowered function wants them -*- C++ -*-===//
//
// Types say sizes, not strides, and strides are part of what eager mode does. So an instruction's
// first run shows how its results are laid out and which requests for memory they came from; from
// then on there are tensors over the planned memory, made once, which stay in their slots: they are
// *fixed*. Views of fixed tensors are fixed too, and need not be made again.
//
// The plan is verified when the program is loaded. What it says of memory in the arena is the
// authority: a tensor there may be overwritten even if it is referenced elsewhere. Memory outside
// of it is overwritten only by who alone holds it.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_EXEC_PLANNEDRESULTS_H
#define CLEAVE_RUNTIME_EXEC_PLANNEDRESULTS_H

#include "runtime/aten/Requests.h"
#include "runtime/exec/Arena.h"
#include "runtime/exec/Instruction.h"

namespace cleave::runtime {

/// One result of an instruction, as planned.
struct PlannedResult {
  enum Kind : uint8_t {
    Apart,  ///< memory of its own
    Arena,  ///< `bytes` at `address`
    View,   ///< shows an operand's memory
    InPlace ///< overwrites an operand's memory
  } kind = Apart;
  Destination destination;
  char *address = nullptr;
  int64_t bytes = 0;
  /// Where the operand is, of View and InPlace.
  uint32_t operandSlot = 0;
};

class PlannedResults {
public:
  PlannedResults(std::vector<PlannedResult> plan, const Arena &arena)
      : plan(std::move(plan)), arena(arena), requests(arena.deviceType()),
        tensors(this->plan.size()) {}

  size_t size() const { return plan.size(); }
  const PlannedResult &operator[](size_t index) const { return plan[index]; }

  /// While it lives, what the kernels ask for is for these results, or workspace.
  Requests::Scope open() { return Requests::Scope(requests); }

  /// After the first run, whose results these are: makes tensors over planned memory with the same
  /// layout, copies the values there and stores all results. `operands`: the tensors that the
  /// kernels read. Throws where planned memory overlaps an operand's that it must not overlap.
  void settle(Frame &frame, llvm::ArrayRef<at::Tensor> values, llvm::ArrayRef<at::Tensor> operands);
  /// After any other run: what does not lie where it should is copied there; stores what is not
  /// fixed. Throws where a layout is not that of the first run.
  void place(Frame &frame, llvm::ArrayRef<at::Tensor> values);
  /// From now on kernels are given the tensors of all results: what they ask for is workspace, of
  /// whatever size.
  void passTensors() { requests.expectNothing(); }
  /// Forgets the first run. The next one is watched.
  void reset();

  bool isSettled() const { return settled; }
  /// Whether all results are views of fixed tensors: there is nothing to run any more.
  bool areAllViews() const;
  /// Whether all results have a tensor that kernels may write while they read the operands.
  bool areAllWritable() const;
  /// The tensor of a result over planned memory; undefined where it is not fixed.
  const at::Tensor &tensor(size_t index) const { return tensors[index].tensor; }

private:
  struct Fixed {
    at::Tensor tensor;
    bool isView = false;
    /// A kernel may write here while it reads the operands.
    bool isWritable = false;
  };
  char *findMemory(size_t index, const Frame &frame, const at::Tensor &value) const;
  bool isWritable(size_t index, const Fixed &fixed, llvm::ArrayRef<at::Tensor> operands) const;
  void allocateApart(const at::Tensor &value);
  at::Tensor leaveArena(size_t index, const at::Tensor &value) const;

  std::vector<PlannedResult> plan;
  const Arena &arena;
  Requests requests;
  std::vector<Fixed> tensors;
  bool settled = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_PLANNEDRESULTS_H
