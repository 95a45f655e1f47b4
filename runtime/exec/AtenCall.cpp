//===- AtenCall.cpp - instructions that call one operator --------------------===//

#include "runtime/exec/AtenCall.h"
#include "dialects/aten/Aten.h"
#include "dialects/aten/ops/Call.h"
#include "runtime/aten/Operator.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Kernels.h"
#include "runtime/exec/LibraryOperator.h"
#include "runtime/io/Error.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave::runtime;
namespace aten = cleave::aten;

static c10::IValue makeList(Frame &frame, const AtenCall::TensorList &list) {
  if (list.isOptional) {
    c10::List<std::optional<at::Tensor>> tensors;
    tensors.reserve(list.elements.size());
    for (const std::optional<Operand> &element : list.elements)
      tensors.push_back(element ? std::optional(element->tensor(frame)) : std::nullopt);
    return tensors;
  }
  c10::List<at::Tensor> tensors;
  tensors.reserve(list.elements.size());
  for (const std::optional<Operand> &element : list.elements)
    tensors.push_back(element->tensor(frame));
  return tensors;
}

/// Whether the memory holds complex numbers.
static bool arePairs(const at::Tensor &reals) {
  if (reals.stride(-1) != 1 || reals.storage_offset() % 2)
    return false;
  for (int64_t dim = 0; dim + 1 < reals.dim(); ++dim)
    if (reals.stride(dim) % 2)
      return false;
  return true;
}

/// PyTorch only marks what is conjugated or negated, for kernels to find. Programs, whose values
/// are sent, dumped and read by compiled kernels, have no marks.
static bool isMarked(const at::Tensor &value) {
  return value.defined() && (value.is_conj() || value.is_neg());
}

void AtenCall::pushArguments(Frame &frame) {
  std::vector<c10::IValue> &stack = frame.stack;
  stack.clear();
  for (const Argument &argument : arguments) {
    switch (argument.kind) {
    case Argument::Constant:
      stack.push_back(argument.constant);
      break;
    case Argument::Tensor:
    case Argument::Number:
      stack.push_back(argument.operand.read(frame));
      break;
    case Argument::List:
      stack.push_back(argument.constant.isNone() ? makeList(frame, lists[argument.operand.slot])
                                                 : argument.constant);
      break;
    }
  }
  if (isStrided)
    stack.front() = stack.front().toTensor().contiguous();
  if (takesPairs && !arePairs(stack.front().toTensor()))
    stack.front() = stack.front().toTensor().contiguous();
}

void AtenCall::keepLists(Frame &frame) {
  for (Argument &argument : arguments) {
    if (argument.kind != Argument::List)
      continue;
    const TensorList &list = lists[argument.operand.slot];
    bool isFixed = llvm::all_of(list.elements, [&](const std::optional<Operand> &element) {
      return !element || frame.isFixed(element->slot);
    });
    if (isFixed)
      argument.constant = makeList(frame, list);
  }
}

void AtenCall::dropLists() {
  for (Argument &argument : arguments)
    if (argument.kind == Argument::List)
      argument.constant = c10::IValue();
}

void AtenCall::call(Frame &frame) {
  if (!isOfLibrary)
    return handle.callBoxed(frame.stack);
  callOfLibrary(handle, frame.stack, /*compares=*/!hasRun);
  hasRun = true;
}

void AtenCall::execute(Frame &frame) {
  pushArguments(frame);
  call(frame);
  if (isChecked && !returnsList && !marksResults && !isOfLibrary) {
    for (size_t i = 0; i < results.size(); ++i)
      results[i].destination.write(frame, std::move(frame.stack[i]));
    frame.stack.clear();
    return;
  }
  llvm::SmallVector<at::Tensor, 4> values = popResults(frame);
  if (!isChecked || isOfLibrary)
    checkResults(values);
  isChecked = true;
  for (size_t i = 0; i < results.size(); ++i)
    results[i].destination.write(frame, std::move(values[i]));
}

llvm::SmallVector<at::Tensor, 4> AtenCall::popResults(Frame &frame) {
  llvm::SmallVector<at::Tensor, 4> values;
  if (returnsList) {
    c10::List<at::Tensor> list = std::move(frame.stack.front()).toTensorList();
    for (size_t i = 0; i < list.size(); ++i)
      values.push_back(list.get(i));
  } else {
    for (c10::IValue &value : frame.stack)
      values.push_back(std::move(value).toTensor());
  }
  frame.stack.clear();
  for (at::Tensor &value : values)
    if (isMarked(value)) {
      marksResults = true;
      value = value.resolve_conj().resolve_neg();
    }
  return values;
}

void AtenCall::checkResults(llvm::ArrayRef<at::Tensor> values) const {
  TORCH_CHECK(values.size() == results.size(), "the operator returned ", values.size(),
              " results, but the program has ", results.size());
  for (size_t i = 0; i < values.size(); ++i) {
    std::string found = "nothing", expected = "nothing";
    if (values[i].defined()) {
      std::optional<cleave::runtime::TensorType> type = typeOf(values[i]);
      found = type ? type->str() : std::string(c10::toString(values[i].scalar_type()));
    }
    if (results[i].type)
      expected = results[i].type->str();
    TORCH_CHECK(found == expected, "result ", i, " is ", found, ", but the program says ",
                expected);
  }
}

/// The library that is loaded may be another than that of the export.
static llvm::Error checkSchema(Operation *op, const c10::FunctionSchema &schema) {
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call || !call.getSchema())
    return llvm::Error::success();
  std::string text = c10::toString(schema);
  llvm::StringRef found = llvm::StringRef(text).drop_front(text.find('('));
  if (found == *call.getSchema())
    return llvm::Error::success();
  return makeError("operator '{0}' is {1} in the program, but its library has {2}",
                   call.getCallee(), *call.getSchema(), found);
}

/// Whether the `out` overload is no use for planned memory: many losses that are reduced to a
/// scalar first resize it to the shape that they have without reduction.
static bool resizesOut(const c10::FunctionSchema &schema, const AtenCall &call) {
  return schema.argumentIndexWithName("reduction") && call.results.size() == 1 &&
         call.results.front().type && call.results.front().type->shape.empty();
}

BindResult cleave::runtime::bindAtenCall(Binder &binder, Operation *op) {
  auto call = cast<aten::AtenOpInterface>(op);
  llvm::Expected<c10::OperatorHandle> handle =
      findOperator(call.getSchemaName(), binder.services().device->dispatchKey());
  if (!handle)
    return handle.takeError();
  AtenCall made(*handle), *instruction = &made;
  const c10::FunctionSchema &schema = handle->schema();
  if (llvm::Error error = checkSchema(op, schema))
    return std::move(error);

  llvm::SmallVector<aten::Argument> given = call.getArguments();
  llvm::StringMap<const aten::Argument *> byName;
  for (const aten::Argument &argument : given)
    byName[argument.name] = &argument;

  for (const c10::Argument &declared : schema.arguments()) {
    auto found = byName.find(declared.name());
    const aten::Argument *argument = found == byName.end() ? nullptr : found->second;
    if (found != byName.end())
      byName.erase(found);
    AtenCall::Argument bound{AtenCall::Argument::Constant, {}, {}};
    if (!argument || argument->kind == 'A') {
      llvm::Expected<c10::IValue> value =
          argument ? toIValue(argument->attribute, declared) : defaultIValue(declared);
      if (!value)
        return value.takeError();
      bound.constant = std::move(*value);
      // Programs do not say where they run.
      if (!argument && declared.name() == "device" && !binder.services().device->isHost())
        bound.constant = binder.services().device->torchDevice();
    } else if (argument->kind == 'L') {
      AtenCall::TensorList list;
      for (Value element : argument->values)
        list.elements.push_back(element ? std::optional(binder.use(element)) : std::nullopt);
      const auto *type = declared.type()->castRaw<c10::ListType>();
      list.isOptional = type && type->getElementType()->kind() == c10::TypeKind::OptionalType;
      if (!list.isOptional && llvm::is_contained(list.elements, std::nullopt))
        return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                       "argument '" + declared.name() + "' cannot be none");
      bound.kind = AtenCall::Argument::List;
      bound.operand.slot = instruction->lists.size();
      instruction->lists.push_back(std::move(list));
    } else if (!argument->values.empty()) {
      bound.kind = argument->kind == 'N' ? AtenCall::Argument::Number : AtenCall::Argument::Tensor;
      bound.operand = binder.use(argument->values.front());
    }
    instruction->arguments.push_back(std::move(bound));
  }
  // A view that the strides at hand do not allow copies. Eager mode's strides are not always those
  // of a program: compiled kernels and collectives give contiguous results.
  if (call.getSchemaName() == "aten::view")
    instruction->handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::reshape", "");
  instruction->takesPairs = call.getSchemaName() == "aten::view_as_complex";
  instruction->isStrided = call.getSchemaName().starts_with("aten::as_strided");
  if (!byName.empty())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "operator '" + call.getSchemaName() + "' has no argument '" +
                                       byName.begin()->first() + "'");

  instruction->isOfLibrary = isOfLibrary(*handle);

  const auto &returns = schema.returns();
  instruction->returnsList =
      returns.size() == 1 && returns.front().type()->kind() == c10::TypeKind::ListType;
  for (Value result : op->getResults()) {
    std::optional<cleave::runtime::TensorType> type;
    if (isa<RankedTensorType>(result.getType()))
      type = toTensorType(result.getType());
    instruction->results.push_back({binder.define(result), type});
  }
  if (binder.isLowered()) {
    OutVariant variant;
    if (!resizesOut(schema, *instruction))
      variant = findOutVariant(*handle, binder.services().device->dispatchKey());
    return std::make_unique<PlannedCall>(std::move(made), binder.planResults(op),
                                         *binder.services().arena, std::move(variant));
  }
  return std::make_unique<AtenCall>(std::move(made));
}
