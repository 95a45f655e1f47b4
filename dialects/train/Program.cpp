//===- Program.cpp - the functions of a training program ---------------------===//

#include "dialects/dist/Dist.h"
#include "dialects/train/RankClasses.h"
#include "dialects/train/StateDict.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace cleave::train;

RoleAttr cleave::train::getArgumentRole(func::FuncOp function, unsigned argument) {
  return function.getArgAttrOfType<RoleAttr>(argument, kRoleAttrName);
}

RoleAttr cleave::train::getResultRole(func::FuncOp function, unsigned result) {
  return function.getResultAttrOfType<RoleAttr>(result, kRoleAttrName);
}

//===----------------------------------------------------------------------===//
// One argument or result
//===----------------------------------------------------------------------===//

/// The fields that only some kinds have.
static LogicalResult verifyFields(Operation *op, RoleAttr role, RankedTensorType tensor) {
  RoleKind kind = role.getKind();
  if ((kind == RoleKind::OptimizerState) != bool(role.getSlot()))
    return op->emitError() << "expects a slot for optimizer state only, found " << role;
  bool isData = kind == RoleKind::Input || kind == RoleKind::Target || kind == RoleKind::Output;
  if (role.getBatch() && !isData)
    return op->emitError()
           << "expects a batch dimension on inputs, targets and outputs only, found " << role;
  if (role.getBatch() && (*role.getBatch() < 0 || *role.getBatch() >= tensor.getRank()))
    return op->emitError() << "expects the batch dimension of " << role << " to be one of "
                           << tensor;
  if (role.getOver() && !role.getBatch())
    return op->emitError() << "expects a batch dimension to be divided, found " << role;
  if (role.getOver() &&
      role.getOver().size() !=
          llvm::SmallDenseSet<Attribute>(role.getOver().begin(), role.getOver().end()).size())
    return op->emitError() << "lists a mesh axis twice in " << role;
  if (role.getFrozen() && kind != RoleKind::Parameter)
    return op->emitError() << "expects 'frozen' on parameters only, found " << role;
  if (role.getAliases() && kind != RoleKind::Parameter && kind != RoleKind::Buffer)
    return op->emitError() << "expects aliases on parameters and buffers only, found " << role;
  return success();
}

static LogicalResult verifyRole(Operation *op, Attribute attribute, Type type, bool isArgument) {
  auto role = dyn_cast<RoleAttr>(attribute);
  if (!role)
    return op->emitError() << "expects a #train.role for '" << kRoleAttrName << "', found "
                           << attribute;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (auto bucket = dyn_cast<BucketType>(type)) {
    // Gradients that gather together have the bucket's name.
    if ((role.getKind() == RoleKind::Accumulator || role.getKind() == RoleKind::Gradient) &&
        role.getNameOrEmpty() != bucket.getSymbol().getValue())
      return op->emitError() << "expects the name of " << bucket.getSymbol() << ", found " << role;
    if (role.getKind() == RoleKind::Accumulator || role.getKind() == RoleKind::Gradient)
      tensor = bucket.getFlat();
  }
  if (auto host = dyn_cast<cleave::dist::HostType>(type); host && role.getKind() == RoleKind::Saved)
    tensor = host.getValueType();
  if (!tensor || !tensor.hasStaticShape())
    return op->emitError() << "expects a statically shaped tensor for " << role << ", found "
                           << type;
  bool allowed = true, named = true;
  std::optional<Type> exact;
  Builder b(op->getContext());
  switch (role.getKind()) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::OptimizerState:
  case RoleKind::Gradient:
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient:
  case RoleKind::StageSum:
    break;
  case RoleKind::Constant:
  case RoleKind::Input:
  case RoleKind::Target:
  case RoleKind::Accumulator:
    allowed = isArgument;
    break;
  case RoleKind::Output:
    allowed = !isArgument;
    break;
  case RoleKind::Loss:
    allowed = !isArgument;
    named = false;
    break;
  case RoleKind::Seed:
    allowed = isArgument;
    named = false;
    break;
  case RoleKind::LossScale:
  case RoleKind::Step:
    exact = b.getF32Type();
    allowed = isArgument;
    named = false;
    break;
  case RoleKind::RngSeed:
  case RoleKind::RngOffset:
    exact = b.getI64Type();
    allowed = isArgument;
    named = false;
    break;
  }
  if (!allowed)
    return op->emitError() << "expects " << role << " only on "
                           << (isArgument ? "a result" : "an argument");
  if (named != bool(role.getName()))
    return op->emitError() << "expects " << role
                           << (named ? " to have a name" : " to have no name");
  if (!named && tensor.getRank() != 0)
    return op->emitError() << "expects a 0-d tensor for " << role << ", found " << type;
  if (exact && tensor.getElementType() != *exact)
    return op->emitError() << "expects elements of type " << *exact << " for " << role << ", found "
                           << type;
  return verifyFields(op, role, tensor);
}

LogicalResult TrainDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                     NamedAttribute attribute) {
  if (attribute.getName() != kRoleAttrName)
    return op->emitError() << "unknown argument attribute " << attribute.getName();
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return op->emitError() << "expects roles on functions only";
  return verifyRole(op, attribute.getValue(), function.getArgumentTypes()[argument], true);
}

LogicalResult TrainDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result,
                                                        NamedAttribute attribute) {
  if (attribute.getName() != kRoleAttrName)
    return op->emitError() << "unknown result attribute " << attribute.getName();
  auto function = dyn_cast<func::FuncOp>(op);
  if (!function)
    return op->emitError() << "expects roles on functions only";
  return verifyRole(op, attribute.getValue(), function.getResultTypes()[result], false);
}

//===----------------------------------------------------------------------===//
// One function
//===----------------------------------------------------------------------===//

/// Whether upstream's verifier, which runs later, will accept the function's own attributes; what
/// it will refuse must not be looked into before.
static bool isWellFormed(func::FuncOp function) {
  TypeAttr type = function.getFunctionTypeAttr();
  if (!type || !isa<FunctionType>(type.getValue()))
    return false;
  auto fits = [](ArrayAttr attributes, unsigned count) {
    return !attributes || (attributes.size() == count && llvm::all_of(attributes, [](Attribute a) {
                             return isa<DictionaryAttr>(a);
                           }));
  };
  return fits(function.getArgAttrsAttr(), function.getNumArguments()) &&
         fits(function.getResAttrsAttr(), function.getNumResults());
}

/// Every argument and result has a role, each role stands once, and tied pairs have one type.
static LogicalResult verifyPhaseFunction(func::FuncOp function) {
  if (!isWellFormed(function))
    return success();
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitError() << "expects a body of one block, as part of a program";
  auto key = [](RoleAttr role) {
    return std::make_tuple(static_cast<unsigned>(role.getKind()), role.getName(), role.getSlot());
  };
  using Key = std::tuple<unsigned, StringAttr, StringAttr>;
  DenseMap<Key, unsigned> arguments, results;
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    RoleAttr role = getArgumentRole(function, i);
    if (!role)
      return function.emitError() << "expects a role for argument " << i;
    if (!arguments.try_emplace(key(role), i).second)
      return function.emitError() << "has two arguments with " << role;
  }
  for (unsigned i = 0, e = function.getNumResults(); i < e; ++i) {
    RoleAttr role = getResultRole(function, i);
    if (!role)
      return function.emitError() << "expects a role for result " << i;
    if (!results.try_emplace(key(role), i).second)
      return function.emitError() << "has two results with " << role;
    RoleAttr tied = role;
    if (role.getKind() == RoleKind::Gradient)
      tied = RoleAttr::get(role.getContext(), RoleKind::Accumulator, role.getNameOrEmpty());
    auto argument = arguments.find(key(tied));
    if (argument == arguments.end()) {
      if (role.getKind() == RoleKind::Parameter || role.getKind() == RoleKind::Buffer ||
          role.getKind() == RoleKind::OptimizerState)
        return function.emitError() << "expects an argument that result " << i << ", " << role
                                    << ", is the new value of";
      continue;
    }
    Type before = function.getArgumentTypes()[argument->second];
    if (before != function.getResultTypes()[i])
      return function.emitError() << "expects " << role << " to keep its type " << before
                                  << ", found " << function.getResultTypes()[i];
  }
  // In the order of arguments: which error is reported does not depend on addresses.
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    RoleAttr role = getArgumentRole(function, i);
    if (role.getKind() == RoleKind::Accumulator &&
        !results.contains(
            {static_cast<unsigned>(RoleKind::Gradient), role.getName(), StringAttr()}))
      return function.emitError() << "expects a gradient result for the accumulator of "
                                  << role.getName();
  }
  return success();
}

LogicalResult TrainDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == kPhaseAttrName) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || !isa<PhaseAttr>(attribute.getValue()))
      return op->emitError() << "expects '" << name << "' to be a #train.phase on a function";
    return verifyPhaseFunction(function);
  }
  if (name == kDrawsAttrName) {
    auto draws = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!isa<func::FuncOp>(op) || !draws || !draws.getType().isSignlessInteger(64) ||
        draws.getInt() < 0)
      return op->emitError() << "expects '" << name << "' to be a count (i64) on a function";
    // What a microbatch draws is said once; its backward may only draw the same numbers again.
    if (auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttrName);
        phase && phase.getValue() != Phase::Microbatch && phase.getValue() != Phase::Forward)
      return op->emitError()
             << "expects '" << name
             << "' on the microbatch or forward function, found a function of phase "
             << stringifyPhase(phase.getValue());
    return success();
  }
  if (name == kMeanOverAttrName) {
    if (!isa<ModuleOp>(op) || !isa<TargetsAttr>(attribute.getValue()))
      return op->emitError() << "expects '" << name << "' to be a #train.targets on a module";
    return success();
  }
  if (name == kLossScalingAttrName) {
    if (!isa<ModuleOp>(op) || !isa<LossScalingAttr>(attribute.getValue()))
      return op->emitError() << "expects '" << name << "' to be a #train.loss_scaling on a module";
    return success();
  }
  if (name == kTransientAttrName || name == kLossStateAttrName) {
    bool isLoss = name == kLossStateAttrName;
    auto isName = [&](Attribute each) {
      auto text = dyn_cast<StringAttr>(each);
      return text && (!isLoss || text.getValue().starts_with(kLossPrefix));
    };
    auto names = dyn_cast<ArrayAttr>(attribute.getValue());
    if (!isa<ModuleOp>(op) || !names || !llvm::all_of(names, isName))
      return op->emitError() << "expects '" << name << "' to be a list of "
                             << (isLoss ? "names that begin with 'loss.'" : "buffers' names")
                             << " on a module";
    return success();
  }
  if (name == kCheckpointAttrName) {
    if (!isa<CheckpointAttr>(attribute.getValue()))
      return op->emitError() << "expects '" << name << "' to be a #train.checkpoint, found "
                             << attribute.getValue();
    return success();
  }
  if (name == kBackwardAttrName || name == kActivationGradientAttrName ||
      name == kRecomputedAttrName) {
    if (!isa<UnitAttr>(attribute.getValue()))
      return op->emitError() << "expects '" << name << "' to have no value, found "
                             << attribute.getValue();
    return success();
  }
  if (name == kStageAttrName) {
    auto stage = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!stage || !stage.getType().isSignlessInteger(64) || stage.getInt() < 0)
      return op->emitError() << "expects '" << name << "' to be a stage's number (i64), found "
                             << attribute.getValue();
    return success();
  }
  if (name == kRanksAttrName)
    return verifyRanks(op, attribute.getValue());
  // A misspelt name would otherwise be kept and mean nothing.
  return op->emitError() << "unknown attribute '" << name << "'";
}
