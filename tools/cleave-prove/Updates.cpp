//===- Updates.cpp - what updates make of other gradients -------------------===//

#include "tools/cleave-prove/Updates.h"
#include "dialects/aten/ops/Arithmetic.h"
#include "dialects/aten/ops/Comparison.h"
#include "dialects/aten/ops/Copy.h"
#include "dialects/aten/ops/Reduction.h"
#include "dialects/train/Program.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace cleave;
using train::RoleKind;

static bool isUpdate(func::FuncOp function) {
  auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  return phase && phase.getValue() == train::Phase::Update;
}

bool prove::hasUpdates(ModuleOp module) {
  return llvm::any_of(module.getOps<func::FuncOp>(), isUpdate);
}

void prove::eraseUpdates(ModuleOp module) {
  for (auto function : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isUpdate(function))
      function.erase();
}

static Value toElement(ImplicitLocOpBuilder &b, Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return aten::ToCopyOp::create(b, type.clone(element), value, TypeAttr::get(element), BoolAttr(),
                                StringAttr());
}

static void changeGradients(func::FuncOp function, prove::Change change, double share) {
  llvm::StringMap<Value> parameters;
  SmallVector<std::pair<Value, StringRef>> gradients;
  for (BlockArgument argument : function.getArguments()) {
    train::RoleAttr role = train::getArgumentRole(function, argument.getArgNumber());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!role || !type || !isa<FloatType>(type.getElementType()))
      continue;
    if (role.getKind() == RoleKind::Parameter)
      parameters[role.getNameOrEmpty()] = argument;
    if (role.getKind() == RoleKind::Gradient)
      gradients.push_back({argument, role.getNameOrEmpty()});
  }
  auto b = ImplicitLocOpBuilder::atBlockBegin(function.getLoc(), &function.front());
  auto scalar = RankedTensorType::get({}, b.getF64Type());
  SmallVector<SmallVector<OpOperand *>> uses;
  for (auto [gradient, name] : gradients)
    uses.push_back(llvm::to_vector(llvm::make_pointer_range(gradient.getUses())));
  Value greatest;
  for (auto [gradient, name] : gradients) {
    auto type = cast<RankedTensorType>(gradient.getType());
    Value norm = aten::LinalgVectorNormOp::create(
        b, RankedTensorType::get({}, type.getElementType()), gradient, b.getF64FloatAttr(2.0),
        nullptr, nullptr, nullptr);
    norm = toElement(b, norm, scalar.getElementType());
    greatest = greatest ? aten::MaximumOp::create(b, scalar, greatest, norm).getResult() : norm;
  }
  if (!greatest)
    return;
  double factor = change == prove::Change::Smaller ? -share : share;
  Value step = aten::MulScalarOp::create(b, scalar, greatest, b.getF64FloatAttr(factor));
  for (auto [entry, users] : llvm::zip_equal(gradients, uses)) {
    auto [gradient, name] = entry;
    auto type = cast<RankedTensorType>(gradient.getType());
    Value by = toElement(b, step, type.getElementType());
    if (Value parameter = parameters.lookup(name);
        change == prove::Change::BySign && parameter && parameter.getType() == Type(type))
      by = aten::MulOp::create(b, type, aten::SignOp::create(b, type, parameter), by);
    Value changed = aten::AddOp::create(b, type, gradient, by, Attribute());
    for (OpOperand *use : users)
      use->set(changed);
  }
}

void prove::changeGradients(ModuleOp module, Change change, double share) {
  for (auto function : module.getOps<func::FuncOp>())
    if (isUpdate(function) && !function.isExternal())
      ::changeGradients(function, change, share);
}
