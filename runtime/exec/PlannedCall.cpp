//===- PlannedCall.cpp - calls whose results lie in planned memory ------------===//

#include "runtime/exec/AtenCall.h"

using namespace cleave::runtime;

PlannedCall::PlannedCall(AtenCall call, std::vector<PlannedResult> plan, const Arena &arena,
                         OutVariant variant)
    : AtenCall(std::move(call)), planned(std::move(plan), arena), variant(std::move(variant)) {
  if (this->variant.kind != OutVariantKind::Real)
    return;
  bool hasNumbers = llvm::any_of(
      arguments, [](const Argument &argument) { return argument.kind == Argument::Number; });
  if (!hasNumbers)
    unboxed = UnboxedOut::create(*this->variant.handle);
  if (unboxed)
    for (const Argument &argument : arguments)
      if (argument.kind == Argument::Constant)
        scalars.push_back(argument.constant.toScalar());
}

void PlannedCall::execute(Frame &frame) {
  switch (mode) {
  case First:
    return runFirst(frame);
  case Out:
    return runOut(frame);
  case Unboxed:
    return runUnboxed(frame);
  case Placed: {
    {
      Requests::Scope scope = planned.open();
      pushArguments(frame);
      call(frame);
    }
    llvm::SmallVector<at::Tensor, 4> values = popResults(frame);
    if (isOfLibrary)
      checkResults(values);
    planned.place(frame, values);
    return;
  }
  case Nothing:
    return;
  }
}

void PlannedCall::runFirst(Frame &frame) {
  llvm::SmallVector<at::Tensor, 4> operands, values;
  {
    Requests::Scope scope = planned.open();
    pushArguments(frame);
    for (const c10::IValue &argument : frame.stack) {
      if (argument.isTensor()) {
        operands.push_back(argument.toTensor());
      } else if (argument.isTensorList()) {
        for (const at::Tensor &each : argument.toTensorVector())
          operands.push_back(each);
      } else if (argument.isList()) {
        for (const c10::IValue &each : argument.toListRef())
          if (each.isTensor())
            operands.push_back(each.toTensor());
      }
    }
    llvm::erase_if(operands, [](const at::Tensor &operand) { return !operand.defined(); });
    call(frame);
    values = popResults(frame);
  }
  checkResults(values);
  keepLists(frame);
  planned.settle(frame, values, operands);
  if (planned.areAllViews()) {
    mode = Nothing;
  } else if (planned.areAllWritable() && unboxed) {
    mode = Unboxed;
    out = planned.tensor(0);
  } else if (planned.areAllWritable() && variant.kind == OutVariantKind::Real) {
    mode = Out;
    for (size_t i = 0; i < planned.size(); ++i)
      arguments.push_back({Argument::Constant, {}, planned.tensor(i)});
  } else {
    mode = Placed;
  }
  if (mode == Unboxed || mode == Out)
    planned.passTensors();
}

void PlannedCall::runOut(Frame &frame) {
  Requests::Scope scope = planned.open();
  pushArguments(frame);
  variant.handle->callBoxed(frame.stack);
  frame.stack.clear();
}

void PlannedCall::runUnboxed(Frame &frame) {
  Requests::Scope scope = planned.open();
  std::array<const at::Tensor *, UnboxedOut::kMaxTensors> tensors;
  size_t count = 0;
  for (const Argument &argument : arguments)
    if (argument.kind == Argument::Tensor)
      tensors[count++] = &frame.slots[argument.operand.slot].toTensor();
  unboxed->call(tensors.data(), scalars.data(), out);
  for (const Argument &argument : arguments)
    if (argument.kind == Argument::Tensor)
      argument.operand.release(frame);
}

void PlannedCall::reset() {
  if (mode == Out)
    arguments.resize(arguments.size() - planned.size());
  mode = First;
  dropLists();
  planned.reset();
}
