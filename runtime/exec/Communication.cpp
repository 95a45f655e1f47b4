//===- Communication.cpp - instructions that talk to other ranks -------------===//

#include "runtime/exec/Communication.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::runtime;

const Pending::Tensors &InFlight::wait() {
  if (!results) {
    llvm::Expected<Pending::Tensors> arrived = pending.wait();
    if (!arrived)
      throw CommunicationFailure{arrived.takeError()};
    results = std::move(*arrived);
  }
  return *results;
}

c10::IValue Future::wait() {
  const Pending::Tensors &values = operation->wait();
  return index < values.size() ? c10::IValue(values[index]) : c10::IValue();
}

void Communicate::execute(Frame &frame) {
  Pending::Tensors operands;
  for (const Operand &input : inputs) {
    at::Tensor operand = input.tensor(frame);
    operands.push_back(overwrites ? own(std::move(operand)) : std::move(operand));
  }
  PendingOr pending = start(std::move(operands));
  if (!pending)
    throw CommunicationFailure{pending.takeError()};
  if (!isStartOnly) {
    llvm::Expected<Pending::Tensors> values = pending->wait();
    if (!values)
      throw CommunicationFailure{values.takeError()};
    for (auto [destination, value] : llvm::zip(results, *values))
      destination.write(frame, std::move(value));
    return;
  }
  auto operation = c10::make_intrusive<InFlight>(std::move(*pending));
  for (auto [index, destination] : llvm::enumerate(results))
    destination.write(frame,
                      c10::IValue::make_capsule(c10::make_intrusive<Future>(operation, index)));
}

void Wait::execute(Frame &frame) {
  c10::IValue value = future.read(frame);
  result.write(frame, c10::static_intrusive_pointer_cast<Future>(value.toCapsule())->wait());
}
