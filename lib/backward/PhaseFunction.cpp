//===- PhaseFunction.cpp - functions of a program under construction -----------===//

#include "lib/backward/PhaseFunction.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::backward;

static DictionaryAttr withRole(train::RoleAttr role) {
  MLIRContext *context = role.getContext();
  return DictionaryAttr::get(context,
                             NamedAttribute(StringAttr::get(context, train::kRoleAttrName), role));
}

func::FuncOp backward::makePhaseFunction(OpBuilder &b, func::FuncOp like, train::Phase phase) {
  Location loc = like.getLoc();
  std::string name = train::stringifyPhase(phase).str();
  auto stage = like->getAttrOfType<IntegerAttr>(train::kStageAttrName);
  if (stage)
    name += "_" + std::to_string(stage.getInt());
  auto function = func::FuncOp::create(b, loc, name, b.getFunctionType({}, {}));
  function->setAttr(train::kPhaseAttrName, train::PhaseAttr::get(b.getContext(), phase));
  if (stage)
    function->setAttr(train::kStageAttrName, stage);
  function.addEntryBlock();
  auto inner = OpBuilder::atBlockEnd(&function.front());
  func::ReturnOp::create(inner, loc);
  return function;
}

func::ReturnOp backward::getReturn(func::FuncOp function) {
  return cast<func::ReturnOp>(function.front().getTerminator());
}

BlockArgument backward::addArgument(func::FuncOp function, Type type, train::RoleAttr role,
                                    Location loc) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type, withRole(role), loc);
  return function.getArgument(index);
}

void backward::addResult(func::FuncOp function, Value value, train::RoleAttr role) {
  unsigned index = function.getNumResults();
  (void)function.insertResult(index, value.getType(), withRole(role));
  getReturn(function)->insertOperands(index, value);
}

void backward::eraseResult(func::FuncOp function, unsigned index) {
  (void)function.eraseResult(index);
  getReturn(function)->eraseOperand(index);
}

BlockArgument backward::findArgument(func::FuncOp function, train::RoleKind kind, StringAttr name) {
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    if (role.getKind() == kind && role.getName() == name)
      return argument;
  }
  return {};
}

std::optional<unsigned> backward::findResult(func::FuncOp function, train::RoleKind kind,
                                             StringAttr name) {
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    train::RoleAttr role = train::getResultRole(function, i);
    if (role.getKind() == kind && role.getName() == name)
      return i;
  }
  return std::nullopt;
}
