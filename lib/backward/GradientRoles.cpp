//===- GradientRoles.cpp - what a backward's arguments and results are -------===//

#include "lib/backward/GradientRoles.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

FailureOr<backward::GradientResults> backward::sortResults(const train::ProgramFunctions &program,
                                                           func::FuncOp function) {
  llvm::StringSet<> parameters, inputs;
  for (func::FuncOp other : program.getFunctions())
    for (unsigned i = 0; i < other.getNumArguments(); ++i) {
      train::RoleAttr role = train::getArgumentRole(other, i);
      if (role.getKind() == RoleKind::Parameter || role.getKind() == RoleKind::Accumulator)
        parameters.insert(role.getNameOrEmpty());
      else if (role.getKind() == RoleKind::Input)
        inputs.insert(role.getNameOrEmpty());
    }
  GradientResults results;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    train::RoleAttr role = train::getResultRole(function, i);
    if (role.getKind() == RoleKind::CrossingGradient)
      results.inputs.push_back(i);
    else if (role.getKind() != RoleKind::Gradient)
      results.others.push_back(i);
    else if (parameters.contains(role.getNameOrEmpty()))
      results.parameters.push_back(i);
    else if (inputs.contains(role.getNameOrEmpty()))
      results.inputs.push_back(i);
    else
      return function.emitError() << "returns " << role
                                  << ", but the program has neither a parameter nor an input with "
                                     "that name";
  }
  return results;
}

/// The function of `program` that gives `saved name`, and the index of that result.
static std::optional<std::pair<func::FuncOp, unsigned>>
findProducer(const train::ProgramFunctions &program, StringAttr name) {
  for (func::FuncOp function : program.getFunctions())
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (train::RoleAttr role = train::getResultRole(function, i);
          role.getKind() == RoleKind::Saved && role.getName() == name)
        return std::make_pair(function, i);
  return std::nullopt;
}

SmallVector<Value> backward::findTangents(const train::ProgramFunctions &program,
                                          func::FuncOp function) {
  // Producers run before the functions that take what they make, so this ends.
  llvm::DenseMap<Operation *, llvm::DenseSet<Value>> continued;
  SmallVector<Value> tangents;
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (role.getKind() == RoleKind::Seed || role.getKind() == RoleKind::Gradient ||
        role.getKind() == RoleKind::CrossingGradient)
      tangents.push_back(argument);
    if (role.getKind() != RoleKind::Saved)
      continue;
    auto producer = findProducer(program, role.getName());
    if (!producer || producer->first == function)
      continue;
    auto [entry, isNew] = continued.try_emplace(producer->first);
    if (isNew)
      entry->second = valuesFrom(producer->first, findTangents(program, producer->first));
    if (entry->second.contains(
            producer->first.front().getTerminator()->getOperand(producer->second)))
      tangents.push_back(argument);
  }
  return tangents;
}

llvm::DenseSet<Value> backward::valuesFrom(func::FuncOp function, ArrayRef<Value> values) {
  llvm::DenseSet<Value> reached(values.begin(), values.end());
  for (Operation &op : function.front())
    if (llvm::any_of(op.getOperands(), [&](Value v) { return reached.contains(v); }))
      reached.insert(op.result_begin(), op.result_end());
  return reached;
}
