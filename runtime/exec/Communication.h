//===- Communication.h - instructions that talk to other ranks -----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_COMMUNICATION_H
#define CLEAVE_RUNTIME_EXEC_COMMUNICATION_H

#include "runtime/aten/Requests.h"
#include "runtime/comm/Collectives.h"
#include "runtime/exec/Arena.h"
#include "runtime/exec/Instruction.h"

namespace cleave::runtime {

class Device;

/// Results of a communication that is in flight, in the slots of all its futures.
class InFlight : public torch::CustomClassHolder {
public:
  /// `targets`: where results are to lie, undefined for those that may lie anywhere; empty: all.
  /// `workspace`: whose the memory is that it takes while it is awaited; null if it is not counted.
  explicit InFlight(Pending pending, Pending::Tensors targets = {}, Requests *workspace = nullptr)
      : pending(std::move(pending)), targets(std::move(targets)), workspace(workspace) {}

  /// Its results, once they are there. Throws CommunicationFailure.
  const Pending::Tensors &wait();

private:
  Pending pending;
  Pending::Tensors targets;
  Requests *workspace;
  std::optional<Pending::Tensors> results;
};

/// One value of it: `!dist.future<T>` while the program runs.
class Future : public torch::CustomClassHolder {
public:
  Future(c10::intrusive_ptr<InFlight> operation, size_t index)
      : operation(std::move(operation)), index(index) {}

  /// None for the completion of an operation without a value.
  c10::IValue wait();
  bool isOf(const c10::intrusive_ptr<torch::CustomClassHolder> &other) const {
    return other == operation;
  }

private:
  c10::intrusive_ptr<InFlight> operation;
  size_t index;
};

/// Any communication op: starts, and waits unless its results are futures.
class Communicate : public Instruction {
public:
  std::vector<Operand> inputs;
  std::vector<Destination> results;
  bool isStartOnly = false;
  /// Bound to the op's group and attributes; may overwrite its operands where `overwrites` is set.
  std::function<PendingOr(Pending::Tensors operands)> start;
  bool overwrites = false;
  /// In a function that plans memory: tensors over the results' places, undefined for results that
  /// have none of their own; which results are to overwrite their operand; and the arena, where
  /// they do so even if there are other references to the operand.
  Pending::Tensors targets;
  std::vector<bool> isInPlace;
  const Arena *arena = nullptr;
  /// Null if there is one stream.
  const Device *device = nullptr;

  void execute(Frame &frame) override;

private:
  at::Tensor prepareOperand(Frame &frame, size_t index) const;
  void run(Frame &frame);

  /// Messages are packed and unpacked in memory that no plan knows.
  Requests workspace = Requests::ofWorkspace();
};

/// `dist.wait`
class Wait : public Instruction {
public:
  Operand future;
  Destination result;

  void execute(Frame &frame) override;
};

/// `exec.record`: the event is what has been started so far. On a device without streams everything
/// else is complete when the next instruction runs.
class Record : public Instruction {
public:
  Destination event;
  bool isCommunication = false;

  void execute(Frame &frame) override;
};

/// `exec.wait`: of the compute stream, until what had been started before the event is complete.
class WaitEvent : public Instruction {
public:
  Operand event;

  void execute(Frame &frame) override;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_COMMUNICATION_H
