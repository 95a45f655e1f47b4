//===- ValueNumbering.cpp - which values are equal in any run ----------------===//

#include "lib/backward/ValueNumbering.h"

#include "dialects/aten/ops/Call.h"
#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

void backward::ValueNumbering::add(func::FuncOp function, OnRepeated onRepeated) {
  for (BlockArgument argument : function.getArguments())
    numbers[argument] = numberOf(train::getArgumentRole(function, argument.getArgNumber()));
  for (Operation &op : function.front().without_terminator())
    addOp(&op, onRepeated);
  for (auto [i, value] : llvm::enumerate(function.front().getTerminator()->getOperands()))
    if (train::RoleAttr role = train::getResultRole(function, i); role.getKind() == RoleKind::Saved)
      saved[role.getName()] = numbers.lookup(value);
}

unsigned backward::ValueNumbering::numberOf(train::RoleAttr role) {
  if (role.getKind() == RoleKind::Saved)
    if (auto found = saved.find(role.getName()); found != saved.end())
      return found->second;
  auto [entry, isNew] =
      arguments.try_emplace({static_cast<unsigned>(role.getKind()), role.getName()}, next);
  next += isNew;
  return entry->second;
}

/// What the op computes, apart from which results are asked for and what is noted about it.
static Attribute whatItDoes(Operation *op) {
  constexpr llvm::StringLiteral maskName = "output_mask";
  NamedAttrList attributes;
  for (NamedAttribute attribute : op->getAttrDictionary()) {
    if (attribute.getName().getValue().starts_with("train.") || attribute.getName() == maskName)
      continue;
    auto arguments = dyn_cast<DictionaryAttr>(attribute.getValue());
    if (isa<aten::CallOp>(op) && arguments) {
      NamedAttrList unmasked(arguments);
      unmasked.erase(maskName);
      attributes.append(attribute.getName(), unmasked.getDictionary(op->getContext()));
      continue;
    }
    attributes.append(attribute);
  }
  return attributes.getDictionary(op->getContext());
}

static bool computes(Operation *op, unsigned result) {
  return !isa<NoneType>(op->getResult(result).getType());
}

void backward::ValueNumbering::addOp(Operation *op, OnRepeated onRepeated) {
  // A copy is its value, on the host as on the device.
  if (isa<dist::OffloadOp, dist::ReloadOp>(op)) {
    numbers[op->getResult(0)] = numbers.lookup(op->getOperand(0));
    return;
  }
  std::vector<unsigned> operands;
  for (Value operand : op->getOperands())
    operands.push_back(numbers.lookup(operand));
  Key key{op->getName().getAsOpaquePointer(), whatItDoes(op).getAsOpaquePointer(),
          std::move(operands)};
  Producers &equal = producers[key];
  if (equal.ops.empty()) {
    equal.number = next;
    next += op->getNumResults();
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    numbers[op->getResult(i)] = equal.number + i;
  SmallVector<Operation *> earlier;
  for (Operation *producer : equal.ops)
    if (llvm::any_of(llvm::seq(op->getNumResults()),
                     [&](unsigned i) { return computes(op, i) && computes(producer, i); }))
      earlier.push_back(producer);
  equal.ops.push_back(op);
  if (!earlier.empty())
    onRepeated(op, earlier);
}

void backward::mergeRepeatedOps(func::FuncOp function) {
  SmallVector<Operation *> merged;
  ValueNumbering().add(function, [&](Operation *op, ArrayRef<Operation *> repeated) {
    Operation *earlier = repeated.front();
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      if (computes(op, i) && !computes(earlier, i))
        return;
    for (unsigned i = 0; i < op->getNumResults(); ++i)
      if (computes(op, i))
        op->getResult(i).replaceAllUsesWith(earlier->getResult(i));
    merged.push_back(op);
  });
  for (Operation *op : merged)
    op->erase();
}
