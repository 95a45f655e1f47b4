//===- Communication.cpp - instructions that talk to other ranks -------------===//

#include "runtime/exec/Communication.h"
#include "runtime/aten/Allocator.h"
#include "runtime/device/Device.h"

#include "llvm/ADT/STLExtras.h"

using namespace cleave::runtime;

/// Copies values that lie elsewhere to where they are to lie. Those in memory of their own are no
/// workspace of the operation.
static void moveTo(const Pending::Tensors &targets, Pending::Tensors &values) {
  for (auto [target, value] : llvm::zip(targets, values)) {
    if (!value.defined())
      continue;
    if (!target.defined()) {
      countAsTensor(value.storage());
      continue;
    }
    if (target.const_data_ptr() != value.const_data_ptr())
      target.copy_(value);
    value = target;
  }
}

const Pending::Tensors &InFlight::wait() {
  if (!results) {
    std::optional<Requests::Scope> scope;
    if (workspace)
      scope.emplace(*workspace);
    llvm::Expected<Pending::Tensors> arrived = pending.wait();
    if (!arrived)
      throw CommunicationFailure{arrived.takeError()};
    moveTo(targets, *arrived);
    results = std::move(*arrived);
  }
  return *results;
}

c10::IValue Future::wait() {
  const Pending::Tensors &values = operation->wait();
  return index < values.size() ? c10::IValue(values[index]) : c10::IValue();
}

/// An operand as the operation may work on it. What it may overwrite is the result's memory.
at::Tensor Communicate::prepareOperand(Frame &frame, size_t index) const {
  at::Tensor operand = inputs[index].tensor(frame);
  if (!overwrites)
    return operand;
  if (index < targets.size() && targets[index].defined()) {
    targets[index].copy_(operand);
    return targets[index];
  }
  if (index < isInPlace.size() && isInPlace[index] && arena->contains(operand.const_data_ptr()) &&
      operand.is_contiguous())
    return operand;
  return own(std::move(operand));
}

void Communicate::execute(Frame &frame) {
  if (!arena)
    return run(frame);
  Requests::Scope scope(workspace);
  run(frame);
}

void Communicate::run(Frame &frame) {
  Pending::Tensors operands;
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.push_back(prepareOperand(frame, i));
  // On a stream of its own: what others have made, and what they use.
  bool isBeside = device && device->isOnStream(StreamKind::Communication);
  if (isBeside)
    for (const at::Tensor &operand : operands)
      device->noteUse(operand, StreamKind::Communication);
  PendingOr pending = start(std::move(operands));
  if (!pending)
    throw CommunicationFailure{pending.takeError()};
  if (!isStartOnly) {
    llvm::Expected<Pending::Tensors> values = pending->wait();
    if (!values)
      throw CommunicationFailure{values.takeError()};
    moveTo(targets, *values);
    for (auto [destination, value] : llvm::zip(results, *values)) {
      if (isBeside)
        device->noteUse(value, StreamKind::Compute);
      destination.write(frame, std::move(value));
    }
    return;
  }
  auto operation =
      c10::make_intrusive<InFlight>(std::move(*pending), targets, arena ? &workspace : nullptr);
  if (arena)
    frame.started.push_back(c10::IValue::make_capsule(operation));
  for (auto [index, destination] : llvm::enumerate(results))
    destination.write(frame,
                      c10::IValue::make_capsule(c10::make_intrusive<Future>(operation, index)));
}

void Wait::execute(Frame &frame) {
  c10::IValue value = future.read(frame);
  auto awaited = c10::static_intrusive_pointer_cast<Future>(value.toCapsule());
  result.write(frame, awaited->wait());
  // No event need wait for it any more, and its results are held where they are used.
  llvm::erase_if(frame.started,
                 [&](const c10::IValue &each) { return awaited->isOf(each.toCapsule()); });
}

void Record::execute(Frame &frame) {
  c10::List<c10::IValue> started(c10::AnyType::get());
  if (isCommunication)
    for (const c10::IValue &operation : frame.started)
      started.push_back(operation);
  event.write(frame, std::move(started));
}

void WaitEvent::execute(Frame &frame) {
  c10::IValue reached = event.read(frame);
  TORCH_CHECK(reached.isList(), "waits for an event that has not been recorded");
  for (const c10::IValue &operation : reached.toListRef()) {
    c10::static_intrusive_pointer_cast<InFlight>(operation.toCapsule())->wait();
    llvm::erase_if(frame.started, [&](const c10::IValue &each) {
      return each.toCapsule() == operation.toCapsule();
    });
  }
}
