//===- Communication.h - instructions that talk to other ranks -----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_COMMUNICATION_H
#define CLEAVE_RUNTIME_EXEC_COMMUNICATION_H

#include "runtime/comm/Collectives.h"
#include "runtime/exec/Instruction.h"

namespace cleave::runtime {

/// Results of a communication that is in flight, in the slots of all its futures.
class InFlight : public torch::CustomClassHolder {
public:
  explicit InFlight(Pending pending) : pending(std::move(pending)) {}

  /// Its results, once they are there. Throws CommunicationFailure.
  const Pending::Tensors &wait();

private:
  Pending pending;
  std::optional<Pending::Tensors> results;
};

/// One value of it: `!dist.future<T>` while the program runs.
class Future : public torch::CustomClassHolder {
public:
  Future(c10::intrusive_ptr<InFlight> operation, size_t index)
      : operation(std::move(operation)), index(index) {}

  /// None for the completion of an operation without a value.
  c10::IValue wait();

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

  void execute(Frame &frame) override;
};

/// `dist.wait`
class Wait : public Instruction {
public:
  Operand future;
  Destination result;

  void execute(Frame &frame) override;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_COMMUNICATION_H
