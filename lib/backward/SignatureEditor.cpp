//===- SignatureEditor.cpp - many changes to a function's signature ---------===//

#include "lib/backward/SignatureEditor.h"
#include "lib/backward/PhaseFunction.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;

//===----------------------------------------------------------------------===//
// Arguments or results
//===----------------------------------------------------------------------===//

train::RoleAttr SignatureEditor::Side::getRole(unsigned number) const {
  return attributes[number].getAs<train::RoleAttr>(train::kRoleAttrName);
}

void SignatureEditor::Side::add(DictionaryAttr dictionary) {
  unsigned number = attributes.size();
  attributes.push_back(dictionary);
  erased.push_back(false);
  // Of several with one kind and name (states of one parameter) the first is found.
  if (train::RoleAttr role = getRole(number))
    byRole.try_emplace({unsigned(role.getKind()), role.getName()}, number);
}

void SignatureEditor::Side::erase(unsigned number) {
  erased.set(number);
  train::RoleAttr role = getRole(number);
  if (!role)
    return;
  auto known = byRole.find({unsigned(role.getKind()), role.getName()});
  if (known != byRole.end() && known->second == number)
    byRole.erase(known);
}

std::optional<unsigned> SignatureEditor::Side::find(train::RoleKind kind, StringAttr name) const {
  auto known = byRole.find({unsigned(kind), name});
  return known == byRole.end() ? std::nullopt : std::optional(known->second);
}

void SignatureEditor::Side::shrink() {
  llvm::SmallVector<DictionaryAttr> kept;
  for (auto [number, dictionary] : llvm::enumerate(attributes))
    if (!erased.test(number))
      kept.push_back(dictionary);
  attributes.clear();
  byRole.clear();
  erased.clear();
  llvm::for_each(kept, [&](DictionaryAttr dictionary) { add(dictionary); });
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

static DictionaryAttr withRole(train::RoleAttr role) {
  MLIRContext *context = role.getContext();
  return DictionaryAttr::get(context,
                             NamedAttribute(StringAttr::get(context, train::kRoleAttrName), role));
}

SignatureEditor::SignatureEditor(func::FuncOp function) : function(function) {
  auto orEmpty = [&](DictionaryAttr dictionary) {
    return dictionary ? dictionary : DictionaryAttr::get(function.getContext());
  };
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    arguments.add(orEmpty(function.getArgAttrDict(i)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    results.add(orEmpty(function.getResultAttrDict(i)));
}

BlockArgument SignatureEditor::addArgument(Type type, train::RoleAttr role, Location loc) {
  hasChanged = true;
  arguments.add(withRole(role));
  return function.front().addArgument(type, loc);
}

void SignatureEditor::addResult(Value value, train::RoleAttr role) {
  hasChanged = true;
  results.add(withRole(role));
  func::ReturnOp terminator = getReturn(function);
  terminator->insertOperands(terminator->getNumOperands(), value);
}

void SignatureEditor::eraseArgument(BlockArgument argument) {
  hasChanged = true;
  arguments.erase(argument.getArgNumber());
}

void SignatureEditor::eraseResult(unsigned index) {
  hasChanged = true;
  results.erase(index);
}

BlockArgument SignatureEditor::findArgument(train::RoleKind kind, StringAttr name) const {
  std::optional<unsigned> number = arguments.find(kind, name);
  func::FuncOp owner = function;
  return number ? owner.front().getArgument(*number) : BlockArgument();
}

std::optional<unsigned> SignatureEditor::findResult(train::RoleKind kind, StringAttr name) const {
  return results.find(kind, name);
}

train::RoleAttr SignatureEditor::getRole(BlockArgument argument) const {
  return arguments.getRole(argument.getArgNumber());
}

void SignatureEditor::commit() {
  Block &body = function.front();
  func::ReturnOp terminator = getReturn(function);
  if (results.erased.any())
    terminator->eraseOperands(results.erased);
  if (arguments.erased.any())
    body.eraseArguments(arguments.erased);
  arguments.shrink();
  results.shrink();
  function.setType(FunctionType::get(function.getContext(), body.getArgumentTypes(),
                                     terminator->getOperandTypes()));
  function.setAllArgAttrs(arguments.attributes);
  function.setAllResultAttrs(results.attributes);
  hasChanged = false;
}
