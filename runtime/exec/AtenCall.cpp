//===- AtenCall.cpp - instructions that call one operator --------------------===//
//
// All operators are called the same way: boxed, through the dispatcher's handle, with arguments
// prepared when the program was bound. What varies from step to step are tensors only.
//
//===----------------------------------------------------------------------===//

#include "dialects/aten/Aten.h"
#include "runtime/aten/Operator.h"
#include "runtime/device/Device.h"
#include "runtime/exec/Kernels.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave::runtime;

namespace {
class AtenCall : public Instruction {
public:
  explicit AtenCall(c10::OperatorHandle handle) : handle(handle) {}

  void execute(Frame &frame) override {
    std::vector<c10::IValue> &stack = frame.stack;
    stack.clear();
    for (const Argument &argument : arguments) {
      switch (argument.kind) {
      case Argument::Constant:
        stack.push_back(argument.constant);
        break;
      case Argument::Tensor:
        stack.push_back(argument.operand.read(frame));
        break;
      case Argument::List:
        stack.push_back(makeList(frame, lists[argument.operand.slot]));
        break;
      }
    }
    handle.callBoxed(stack);
    if (isChecked) {
      storeResults(frame);
      return;
    }
    checkAndStoreResults(frame);
    isChecked = true;
  }

  struct Argument {
    enum Kind : uint8_t { Constant, Tensor, List } kind;
    Operand operand; ///< for a list, `slot` is its index in `lists`
    c10::IValue constant;
  };
  struct TensorList {
    std::vector<std::optional<Operand>> elements; ///< none: None
    bool isOptional = false;                      ///< `Tensor?[]`
  };
  struct Result {
    Destination destination;
    /// The declared type; none where the operator leaves the result undefined.
    std::optional<cleave::runtime::TensorType> type;
  };

  c10::OperatorHandle handle;
  std::vector<Argument> arguments;
  std::vector<TensorList> lists;
  std::vector<Result> results;
  bool returnsList = false;

private:
  static c10::IValue makeList(Frame &frame, const TensorList &list) {
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

  void storeResults(Frame &frame) {
    if (returnsList) {
      c10::List<at::Tensor> list = std::move(frame.stack.front()).toTensorList();
      for (size_t i = 0; i < results.size(); ++i)
        results[i].destination.write(frame, list.get(i));
    } else {
      for (size_t i = 0; i < results.size(); ++i)
        results[i].destination.write(frame, std::move(frame.stack[i]));
    }
    frame.stack.clear();
  }

  /// The first run compares what the operator gave with what the program says it gives.
  void checkAndStoreResults(Frame &frame) {
    size_t count = returnsList ? frame.stack.front().toTensorList().size() : frame.stack.size();
    TORCH_CHECK(count == results.size(), "the operator gave ", count,
                " results, but the program has ", results.size());
    for (size_t i = 0; i < count; ++i) {
      at::Tensor value =
          returnsList ? frame.stack.front().toTensorList().get(i) : frame.stack[i].toTensor();
      std::string found = "nothing", expected = "nothing";
      if (value.defined()) {
        std::optional<cleave::runtime::TensorType> type = typeOf(value);
        found = type ? type->str() : std::string(c10::toString(value.scalar_type()));
      }
      if (results[i].type)
        expected = results[i].type->str();
      TORCH_CHECK(found == expected, "result ", i, " is ", found, ", but the program says ",
                  expected);
    }
    storeResults(frame);
  }

  bool isChecked = false;
};
} // namespace

BindResult cleave::runtime::bindAtenCall(Binder &binder, Operation *op) {
  auto call = cast<aten::AtenOpInterface>(op);
  llvm::Expected<c10::OperatorHandle> handle =
      findOperator(call.getSchemaName(), binder.services().device->dispatchKey());
  if (!handle)
    return handle.takeError();
  auto instruction = std::make_unique<AtenCall>(*handle);
  const c10::FunctionSchema &schema = handle->schema();

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
                                       "argument '" + declared.name() + "' cannot hold none");
      bound.kind = AtenCall::Argument::List;
      bound.operand.slot = instruction->lists.size();
      instruction->lists.push_back(std::move(list));
    } else if (!argument->values.empty()) {
      bound.kind = AtenCall::Argument::Tensor;
      bound.operand = binder.use(argument->values.front());
    }
    instruction->arguments.push_back(std::move(bound));
  }
  // Compiled kernels give contiguous results where eager mode keeps its operands' strides, and
  // attention, for one, takes over those of its operands. Then not all views are possible: others
  // copy.
  if (binder.services().kernels && call.getSchemaName() == "aten::view")
    instruction->handle = c10::Dispatcher::singleton().findSchemaOrThrow("aten::reshape", "");
  if (!byName.empty())
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "operator '" + call.getSchemaName() + "' has no argument '" +
                                       byName.begin()->first() + "'");

  const auto &returns = schema.returns();
  instruction->returnsList =
      returns.size() == 1 && returns.front().type()->kind() == c10::TypeKind::ListType;
  for (Value result : op->getResults()) {
    std::optional<cleave::runtime::TensorType> type;
    if (isa<RankedTensorType>(result.getType()))
      type = toTensorType(result.getType());
    instruction->results.push_back({binder.define(result), type});
  }
  return instruction;
}
