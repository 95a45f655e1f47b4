//===- PartBuilder.cpp - makes one function of a program out of another ---------===//

#include "lib/backward/PartBuilder.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::backward;
namespace train = cleave::train;

//===----------------------------------------------------------------------===//
// SavedNames
//===----------------------------------------------------------------------===//

SavedNames::SavedNames(const train::ProgramFunctions &program) {
  for (func::FuncOp function : program.getFunctions())
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (train::RoleAttr role = train::getResultRole(function, i);
          role.getKind() == train::RoleKind::Saved)
        taken.try_emplace(role.getNameOrEmpty());
}

/// The module path in a location: `h.0.attn` of `loc("h.0.attn"("gpt.py":57:0))`.
static StringRef findModulePath(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().getValue();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (StringRef path = findModulePath(part); !path.empty())
        return path;
  return {};
}

std::string SavedNames::makeName(Value value) {
  std::string name;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    name = train::getArgumentRole(function, argument.getArgNumber()).getNameOrEmpty().str();
  } else {
    Operation *op = value.getDefiningOp();
    StringRef path = findModulePath(op->getLoc());
    name = path.empty() ? "" : path.str() + ".";
    // "aten._to_copy"
    name += op->getName().stripDialect().ltrim('_');
    if (unsigned number = cast<OpResult>(value).getResultNumber())
      name += "#" + std::to_string(number);
  }
  if (auto found = taken.find(name); found != taken.end()) {
    std::string base = name;
    do
      name = base + "." + std::to_string(++found->second);
    while (taken.contains(name));
  }
  taken.try_emplace(name);
  return name;
}

//===----------------------------------------------------------------------===//
// TiedResults
//===----------------------------------------------------------------------===//

TiedResults::TiedResults(func::FuncOp function, ArrayRef<unsigned> results) {
  for (unsigned index : results)
    add(train::getResultRole(function, index));
}

void TiedResults::add(train::RoleAttr result) {
  train::RoleKind kind = result.getKind();
  if (kind == train::RoleKind::Gradient)
    kind = train::RoleKind::Accumulator;
  keys.insert({static_cast<unsigned>(kind), result.getName(), result.getSlot()});
}

bool TiedResults::contains(train::RoleAttr argument) const {
  switch (argument.getKind()) {
  case train::RoleKind::Accumulator:
  case train::RoleKind::Parameter:
  case train::RoleKind::Buffer:
  case train::RoleKind::OptimizerState:
    return keys.contains(
        {static_cast<unsigned>(argument.getKind()), argument.getName(), argument.getSlot()});
  default:
    return false;
  }
}

//===----------------------------------------------------------------------===//
// PartBuilder
//===----------------------------------------------------------------------===//

DictionaryAttr PartBuilder::savedAttributes(StringRef name, train::RoleKind kind) {
  MLIRContext *context = from.getContext();
  auto role = train::RoleAttr::get(context, kind, name);
  return DictionaryAttr::get(context, NamedAttribute(train::kRoleAttrName, role));
}

void PartBuilder::addSaved(Value value, StringRef name, train::RoleKind kind) {
  arguments.push_back({value, savedAttributes(name, kind)});
}
void PartBuilder::addResult(unsigned index) {
  results.push_back(
      {from.front().getTerminator()->getOperand(index), from.getResultAttrDict(index)});
}
void PartBuilder::save(Value value, StringRef name, train::RoleKind kind) {
  results.push_back({value, savedAttributes(name, kind)});
}

void PartBuilder::addArguments(function_ref<bool(BlockArgument, bool)> take) {
  llvm::DenseSet<Value> used;
  for (Operation *op : ops)
    used.insert(op->operand_begin(), op->operand_end());
  for (const Port &result : results)
    used.insert(result.value);
  SmallVector<Port> saved = std::move(arguments);
  arguments.clear();
  for (BlockArgument argument : from.getArguments())
    if (take(argument, used.contains(argument)))
      arguments.push_back({argument, from.getArgAttrDict(argument.getArgNumber())});
  llvm::append_range(arguments, saved);
}

func::FuncOp PartBuilder::build(function_ref<void(Operation *, Operation *)> onClone) {
  MLIRContext *context = from.getContext();
  SmallVector<Type> argumentTypes, resultTypes;
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  for (const Port &port : arguments) {
    argumentTypes.push_back(port.value.getType());
    argumentAttrs.push_back(port.attributes);
  }
  for (const Port &port : results) {
    resultTypes.push_back(port.value.getType());
    resultAttrs.push_back(port.attributes);
  }
  std::string name = train::stringifyPhase(phase).str();
  for (unsigned i = 1; SymbolTable::lookupSymbolIn(from->getParentOp(), name); ++i)
    name = (train::stringifyPhase(phase) + "_" + Twine(i)).str();
  OpBuilder b(from);
  auto function = func::FuncOp::create(b, from.getLoc(), name,
                                       FunctionType::get(context, argumentTypes, resultTypes));
  function.setAllArgAttrs(argumentAttrs);
  function.setAllResultAttrs(resultAttrs);
  for (NamedAttribute attribute : from->getDiscardableAttrs())
    if (attribute.getName() != train::kDrawsAttrName)
      function->setDiscardableAttr(attribute.getName(), attribute.getValue());
  function->setAttr(train::kPhaseAttrName, train::PhaseAttr::get(context, phase));

  Block *body = function.addEntryBlock();
  b.setInsertionPointToEnd(body);
  IRMapping mapping;
  for (auto [port, argument] : llvm::zip_equal(arguments, body->getArguments())) {
    mapping.map(port.value, argument);
    argument.setLoc(port.value.getLoc());
  }
  for (Operation *op : ops) {
    // A saved value's op may be listed for its other results.
    SmallVector<Value> known;
    for (Value result : op->getResults())
      known.push_back(mapping.lookupOrNull(result));
    Operation *clone = b.clone(*op, mapping);
    for (auto [result, value] : llvm::zip_equal(op->getResults(), known))
      if (value)
        mapping.map(result, value);
    clone->removeDiscardableAttr(train::kCheckpointAttrName);
    if (onClone)
      onClone(op, clone);
  }
  SmallVector<Value> returned;
  for (const Port &port : results)
    returned.push_back(mapping.lookup(port.value));
  func::ReturnOp::create(b, from.front().getTerminator()->getLoc(), returned);
  return function;
}
