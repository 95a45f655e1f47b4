//===- Jumps.cpp - updates that rounding changes by more than rounding ------===//

#include "tools/cleave-prove/Jumps.h"
#include "dialects/aten/ops/Call.h"
#include "dialects/train/Program.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace cleave;

static bool isUpdate(func::FuncOp function) {
  auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  return phase && phase.getValue() == train::Phase::Update;
}

/// The name of an operator without its dialect and overload: "sign".
static StringRef nameOf(Operation *op) {
  if (auto call = dyn_cast<aten::CallOp>(op))
    return call.getCallee().split("::").second.split('.').first;
  return op->getName().stripDialect();
}

static bool isInteger(Type type) {
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    type = tensor.getElementType();
  return type.isInteger();
}

static bool jumps(Operation *op) {
  static const llvm::StringSet<> names = {"sign",      "sgn",   "heaviside",    "floor",
                                          "ceil",      "round", "trunc",        "frac",
                                          "remainder", "fmod",  "floor_divide", "copysign"};
  // What is asked of infinities, as before a step that is skipped, is the same for all finite
  // numbers.
  static const llvm::StringSet<> finite = {"isfinite", "isinf", "isnan", "_to_copy"};
  StringRef name = nameOf(op);
  if (isa<arith::CmpFOp>(op) || names.contains(name))
    return true;
  bool takesNumbers =
      llvm::any_of(op->getOperandTypes(), [](Type type) { return !isInteger(type); });
  return takesNumbers && llvm::any_of(op->getResultTypes(), isInteger) && !finite.contains(name);
}

bool prove::jumpsInUpdate(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!isUpdate(function) || function.isExternal())
      continue;
    llvm::SetVector<Value> reached;
    for (BlockArgument argument : function.getArguments())
      if (train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
          role && role.getKind() == train::RoleKind::Gradient)
        reached.insert(argument);
    for (size_t i = 0; i < reached.size(); ++i)
      for (Operation *user : reached[i].getUsers()) {
        if (jumps(user))
          return true;
        reached.insert(user->result_begin(), user->result_end());
      }
  }
  return false;
}

void prove::eraseUpdates(ModuleOp module) {
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isUpdate(function))
      function.erase();
}
