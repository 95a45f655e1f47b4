//===- ProgramOps.cpp - a program's ops, for Python ---------------------------===//
//
// Python holds numbers. Whatever it does with them, an op that is gone is an error, not a dangling
// pointer: numbers of erased ops, and of a module that a pass has replaced, lead nowhere.
//
//===----------------------------------------------------------------------===//

#include "python/native/ProgramImpl.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace cleave;
using namespace mlir;

static std::string printed(auto value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << value;
  return text;
}

static std::string getName(Operation *op) {
  return op->getName().getStringRef().str();
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

python::OpId python::Program::Impl::number(Operation *op) {
  auto [found, isNew] = numbers.try_emplace(op, OpId(ops.size()));
  if (isNew)
    ops.push_back(op);
  return found->second;
}

llvm::Expected<Operation *> python::Program::Impl::find(OpId id) const {
  if (id < 0 || size_t(id) >= ops.size() || !ops[id])
    return llvm::createStringError("the op is gone: it was erased, or passes have run since");
  return ops[id];
}

python::ValueId python::Program::Impl::identify(Value value) {
  if (auto result = dyn_cast<OpResult>(value))
    return {number(result.getOwner()), -1, int64_t(result.getResultNumber())};
  auto argument = cast<BlockArgument>(value);
  Block *block = argument.getOwner();
  int64_t position = 0;
  for (Region &region : block->getParentOp()->getRegions())
    for (Block &each : region) {
      if (&each == block)
        return {number(block->getParentOp()), position, int64_t(argument.getArgNumber())};
      ++position;
    }
  llvm_unreachable("a block is in a region of its op");
}

llvm::Expected<Value> python::Program::Impl::find(const ValueId &id) const {
  llvm::Expected<Operation *> op = find(id.op);
  if (!op)
    return op.takeError();
  if (id.block < 0) {
    if (id.index >= 0 && size_t(id.index) < (*op)->getNumResults())
      return (*op)->getResult(id.index);
  } else {
    int64_t position = 0;
    for (Region &region : (*op)->getRegions())
      for (Block &each : region)
        if (position++ == id.block && id.index >= 0 && size_t(id.index) < each.getNumArguments())
          return each.getArgument(id.index);
  }
  return llvm::createStringError("'%s' has no such value", getName(*op).c_str());
}

//===----------------------------------------------------------------------===//
// Looking
//===----------------------------------------------------------------------===//

std::vector<python::OpId> python::Program::walk() {
  std::vector<OpId> found;
  impl->module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op != *impl->module)
      found.push_back(impl->number(op));
  });
  return found;
}

llvm::Expected<std::string> python::Program::nameOf(OpId id) {
  llvm::Expected<Operation *> found = impl->find(id);
  if (!found)
    return found.takeError();
  return getName(*found);
}

llvm::Expected<std::string> python::Program::textOf(OpId id) {
  llvm::Expected<Operation *> found = impl->find(id);
  if (!found)
    return found.takeError();
  std::string text;
  llvm::raw_string_ostream os(text);
  // Verified before, so that an op that a rewrite has left invalid is printed in the generic form.
  (*found)->print(os, OpPrintingFlags().useLocalScope());
  return text;
}

llvm::Expected<python::OpFacts> python::Program::facts(OpId id) {
  llvm::Expected<Operation *> found = impl->find(id);
  if (!found)
    return found.takeError();
  Operation *op = *found;
  OpFacts facts;
  facts.location = printed(op->getLoc());
  if (auto function = dyn_cast<FunctionOpInterface>(op))
    facts.function = function.getName().str();
  else if (auto parent = op->getParentOfType<FunctionOpInterface>())
    facts.function = parent.getName().str();
  for (Value operand : op->getOperands())
    facts.operands.push_back(impl->identify(operand));
  for (Value result : op->getResults())
    facts.results.push_back(impl->identify(result));
  for (NamedAttribute each : op->getAttrDictionary())
    facts.attributes.emplace_back(each.getName().str(), printed(each.getValue()));
  return facts;
}

llvm::Expected<std::string> python::Program::typeOf(const ValueId &id) {
  llvm::Expected<Value> value = impl->find(id);
  if (!value)
    return value.takeError();
  return printed(value->getType());
}

llvm::Expected<std::vector<python::OpId>> python::Program::usersOf(const ValueId &id) {
  llvm::Expected<Value> value = impl->find(id);
  if (!value)
    return value.takeError();
  llvm::SetVector<OpId> users;
  for (Operation *user : value->getUsers())
    users.insert(impl->number(user));
  // The latest use is the first that MLIR lists.
  return std::vector<OpId>(users.rbegin(), users.rend());
}

//===----------------------------------------------------------------------===//
// Changing
//===----------------------------------------------------------------------===//

/// What MLIR says of a text that it cannot parse.
template <typename Parse> static auto parseQuietly(MLIRContext &context, Parse parse) {
  ScopedDiagnosticHandler handler(&context, [](Diagnostic &) { return success(); });
  return parse();
}

llvm::Error python::Program::beginRewrite() {
  if (impl->before)
    return llvm::createStringError("the program is being rewritten already");
  impl->before = impl->module->clone();
  return llvm::Error::success();
}

llvm::Error python::Program::endRewrite(bool keeps) {
  OwningOpRef<ModuleOp> before = std::move(impl->before);
  if (!before || !keeps) {
    if (before)
      impl->replaceModule(std::move(before));
    return llvm::Error::success();
  }
  llvm::Error error = checkModule("the rewrite");
  if (error)
    impl->replaceModule(std::move(before));
  return error;
}

llvm::Expected<Operation *> python::Program::findForChange(OpId id) {
  if (!impl->before)
    return llvm::createStringError("a program changes only in Program.rewrite, which verifies it");
  return impl->find(id);
}

llvm::Error python::Program::setAttribute(OpId id, llvm::StringRef name,
                                          std::optional<std::string> text) {
  llvm::Expected<Operation *> op = findForChange(id);
  if (!op)
    return op.takeError();
  if (!text) {
    (*op)->removeAttr(name);
    return llvm::Error::success();
  }
  Attribute value =
      parseQuietly(impl->context, [&] { return parseAttribute(*text, &impl->context); });
  if (!value)
    return llvm::createStringError("'%s': expected an attribute in MLIR's syntax, found '%s'",
                                   name.str().c_str(), text->c_str());
  (*op)->setAttr(name, value);
  return llvm::Error::success();
}

llvm::Error python::Program::setOperand(OpId id, int64_t index, const ValueId &to) {
  llvm::Expected<Operation *> op = findForChange(id);
  if (!op)
    return op.takeError();
  llvm::Expected<Value> value = impl->find(to);
  if (!value)
    return value.takeError();
  if (index < 0 || size_t(index) >= (*op)->getNumOperands())
    return llvm::createStringError("'%s' has %u operands, no number %lld", getName(*op).c_str(),
                                   (*op)->getNumOperands(), static_cast<long long>(index));
  (*op)->setOperand(index, *value);
  return llvm::Error::success();
}

llvm::Error python::Program::replace(const ValueId &from, const ValueId &to) {
  if (!impl->before)
    return findForChange(from.op).takeError();
  llvm::Expected<Value> old = impl->find(from);
  if (!old)
    return old.takeError();
  llvm::Expected<Value> value = impl->find(to);
  if (!value)
    return value.takeError();
  if (old->getType() != value->getType())
    return llvm::createStringError("expected a value of type %s to replace another, found %s",
                                   printed(old->getType()).c_str(),
                                   printed(value->getType()).c_str());
  // What makes the new value may use the old one.
  old->replaceAllUsesExcept(*value, value->getDefiningOp());
  return llvm::Error::success();
}

llvm::Error python::Program::erase(OpId id) {
  llvm::Expected<Operation *> op = findForChange(id);
  if (!op)
    return op.takeError();
  for (Value result : (*op)->getResults())
    if (!result.use_empty())
      return llvm::createStringError("'%s' cannot be erased: '%s' uses it", getName(*op).c_str(),
                                     getName(*result.getUsers().begin()).c_str());
  (*op)->walk([&](Operation *each) {
    if (auto found = impl->numbers.find(each); found != impl->numbers.end()) {
      impl->ops[found->second] = nullptr;
      impl->numbers.erase(found);
    }
  });
  (*op)->erase();
  return llvm::Error::success();
}

llvm::Expected<python::OpId>
python::Program::insertBefore(OpId id, const std::string &name,
                              const std::vector<ValueId> &operands,
                              const std::vector<std::pair<std::string, std::string>> &attributes,
                              const std::vector<std::string> &types) {
  llvm::Expected<Operation *> at = findForChange(id);
  if (!at)
    return at.takeError();
  OperationState state((*at)->getLoc(), name);
  if (!state.name.isRegistered())
    return llvm::createStringError("no op is called '%s'", name.c_str());
  for (const ValueId &operand : operands) {
    llvm::Expected<Value> value = impl->find(operand);
    if (!value)
      return value.takeError();
    state.operands.push_back(*value);
  }
  for (const auto &[key, text] : attributes) {
    Attribute value =
        parseQuietly(impl->context, [&] { return parseAttribute(text, &impl->context); });
    if (!value)
      return llvm::createStringError("'%s': expected an attribute in MLIR's syntax, found '%s'",
                                     key.c_str(), text.c_str());
    state.addAttribute(key, value);
  }
  for (const std::string &text : types) {
    Type type = parseQuietly(impl->context, [&] { return parseType(text, &impl->context); });
    if (!type)
      return llvm::createStringError("expected a type in MLIR's syntax, found '%s'", text.c_str());
    state.types.push_back(type);
  }
  OpBuilder builder(*at);
  return impl->number(builder.create(state));
}
