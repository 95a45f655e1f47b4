//===- CheckSignature.cpp - the types of a program function's arguments and results -===//

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/typing/Check.h"
#include "lib/typing/ConflictText.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;
using train::RoleAttr;
using train::RoleKind;

namespace {

/// An argument of a program function, or what it returns as a result.
struct Port {
  func::FuncOp function;
  Value value;
  RoleAttr role;
  bool isResult;

  Operation *terminator() const { return func::FuncOp(function).front().getTerminator(); }
  PlacementAttr placement() const { return dist::getPlacement(value.getType()); }
  InFlightDiagnostic error() const {
    return emitError(isResult ? terminator()->getLoc() : value.getLoc())
           << "'" << func::FuncOp(function).getName() << "' " << (isResult ? "returns " : "takes ")
           << role;
  }
};

/// The signatures of one program: its functions may be several for a microbatch, and a gradient's
/// parameter, or a seed's loss, in another one.
class SignatureChecker {
public:
  explicit SignatureChecker(ModuleOp module);
  LogicalResult run();

private:
  const Port *find(const Port &near, RoleKind kind, StringAttr name, bool isResult) const;
  bool hasDualType(const Port &gradient) const;
  bool isScatteredLater(const Port &gradient) const;

  LogicalResult checkCrossing(const Port &port);
  LogicalResult checkGradient(const Port &gradient);
  LogicalResult checkLoss(const Port &loss);
  LogicalResult checkSeed(const Port &seed);

  SmallVector<Port> ports;
  /// By kind and name.
  DenseMap<std::pair<unsigned, StringAttr>, SmallVector<unsigned, 2>> index;
  /// A function reduces the step's gradients before the update takes them.
  bool reducesBeforeUpdate = false;
};

} // namespace

SignatureChecker::SignatureChecker(ModuleOp module) {
  auto add = [&](func::FuncOp function, Value value, RoleAttr role, bool isResult) {
    index[{static_cast<unsigned>(role.getKind()), role.getName()}].push_back(ports.size());
    ports.push_back({function, value, role, isResult});
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
    if (!phase || function.isExternal())
      continue;
    reducesBeforeUpdate |= phase.getValue() == train::Phase::Reduce;
    for (BlockArgument argument : function.getArguments())
      add(function, argument, train::getArgumentRole(function, argument.getArgNumber()), false);
    for (OpOperand &operand : function.front().getTerminator()->getOpOperands())
      add(function, operand.get(), train::getResultRole(function, operand.getOperandNumber()),
          true);
  }
}

/// The port of this role, in the function of `near` if it has one.
const Port *SignatureChecker::find(const Port &near, RoleKind kind, StringAttr name,
                                   bool isResult) const {
  auto found = index.find({static_cast<unsigned>(kind), name});
  if (found == index.end())
    return nullptr;
  const Port *best = nullptr;
  for (unsigned i : found->second) {
    const Port &port = ports[i];
    if (port.isResult == isResult && (!best || port.function == near.function))
      best = &port;
  }
  return best;
}

/// Rule 6: what varies without a known order cannot be assembled. The offset of random
/// numbers is not a data of the caller's: the runtime computes each rank's.
LogicalResult SignatureChecker::checkCrossing(const Port &port) {
  RoleKind kind = port.role.getKind();
  PlacementAttr placement = port.placement();
  // What the program's functions hand each other stays on its rank, or goes to one like it.
  if (!placement || kind == RoleKind::RngOffset || kind == RoleKind::Saved ||
      kind == RoleKind::Crossing || kind == RoleKind::CrossingGradient)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    if (!entry.placement.isVarying())
      continue;
    InFlightDiagnostic diagnostic = port.error()
                                    << " as V on axis \"" << entry.axis.getValue()
                                    << "\", which does not say how the ranks' values combine; ";
    if (port.isResult)
      diagnostic << "insert dist.reinterpret from V to S(d) or P, or dist.all_gather";
    else
      diagnostic << "declare S(d), R, I or P, and insert dist.reinterpret to V where it is used";
    diagnostic << "; its type is " << port.value.getType();
    if (port.isResult)
      noteOrigin(diagnostic, port.value, "it");
    return diagnostic;
  }
  return success();
}

/// Whether a gradient has the type that differentiation gives it: later it may be a reduced one.
bool SignatureChecker::hasDualType(const Port &gradient) const {
  auto phase =
      func::FuncOp(gradient.function)->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
  switch (phase.getValue()) {
  case train::Phase::Reduce:
    return !gradient.isResult;
  case train::Phase::Update:
    return !reducesBeforeUpdate;
  default:
    return true;
  }
}

/// Whether the reduce function takes the gradient of a shard as what it is before: a pending sum.
bool SignatureChecker::isScatteredLater(const Port &gradient) const {
  auto found = index.find({static_cast<unsigned>(RoleKind::Gradient), gradient.role.getName()});
  return found != index.end() && llvm::any_of(found->second, [&](unsigned i) {
           auto phase = func::FuncOp(ports[i].function)
                            ->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
           return phase.getValue() == train::Phase::Reduce && ports[i].isResult &&
                  ports[i].value.getType() != gradient.value.getType();
         });
}

LogicalResult SignatureChecker::checkGradient(const Port &gradient) {
  StringAttr name = gradient.role.getName();
  const Port *of = find(gradient, RoleKind::Parameter, name, /*isResult=*/false);
  if (!of)
    of = find(gradient, RoleKind::Input, name, /*isResult=*/false);
  PlacementAttr actual = gradient.placement();
  if (!of || !actual || !hasDualType(gradient))
    return success();
  PlacementAttr placement = of->placement();
  if (!placement || !haveSameAxes(placement, actual))
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    FailureOr<AxisPlacement> expected = dist::dual(entry.placement);
    AxisPlacement found = *actual.get(entry.axis);
    if (succeeded(expected) && *expected == found)
      continue;
    if (succeeded(expected) && expected->isShard() && found.isPartialSum() &&
        isScatteredLater(gradient))
      continue;
    InFlightDiagnostic diagnostic = gradient.error() << " as " << found << " on axis \""
                                                     << entry.axis.getValue() << "\", ";
    if (failed(expected)) {
      diagnostic << "but a value that is " << entry.placement << " has no gradient";
    } else {
      diagnostic << "expected " << *expected << ", the type of the gradient of a value that is "
                 << entry.placement;
      std::string advice = gradient.isResult ? describeTransition(found, *expected) : "";
      if (found.isSameOnAllRanks() && expected->isPartial() && !advice.empty())
        diagnostic << "; leave out the reduction that made it " << found << ", or " << advice;
      else if (!advice.empty())
        diagnostic << "; " << advice;
      if (gradient.isResult && entry.placement.isInvariant() && found.isPartial())
        diagnostic << ", the backward of a dist.convert from I to R (Megatron's f)";
    }
    diagnostic << "; the types are " << gradient.value.getType() << " and " << of->value.getType();
    noteOrigin(diagnostic, of->value, "the value it is the gradient of");
    if (gradient.isResult)
      noteOrigin(diagnostic, gradient.value, "the gradient");
    return diagnostic;
  }
  return success();
}

static bool isLoss(AxisPlacement placement) {
  return placement.isInvariant() || placement.isPartialSum();
}

LogicalResult SignatureChecker::checkLoss(const Port &loss) {
  PlacementAttr placement = dist::getPlacement(loss.value.getType());
  if (!placement)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    AxisPlacement found = entry.placement;
    if (isLoss(found))
      continue;
    InFlightDiagnostic diagnostic = loss.error() << " as " << found << " on axis \""
                                                 << entry.axis.getValue() << "\", expected I or P";
    if (found.isReplicate())
      diagnostic << ": the backward would start on every rank and count each gradient once per "
                    "rank; insert dist.convert from R to I where all ranks compute one loss, or "
                    "dist.convert from R to P";
    else if (found.isPartial())
      diagnostic << ": no gradient flows through the pending reduction; insert dist.all_reduce "
                 << stringifyReduction(found.reduction) << " from " << found
                 << " to I, or divide and sum instead";
    else if (found.isVarying())
      diagnostic << "; insert dist.reinterpret from V to P where the loss is the ranks' sum";
    diagnostic << "; the loss is " << loss.value.getType();
    noteOrigin(diagnostic, loss.value, "the loss");
    return diagnostic;
  }
  return success();
}

/// Rule 7.
LogicalResult SignatureChecker::checkSeed(const Port &seed) {
  const Port *loss = find(seed, RoleKind::Loss, StringAttr(), /*isResult=*/true);
  PlacementAttr actual = seed.placement();
  PlacementAttr placement = loss ? loss->placement() : PlacementAttr();
  if (!actual || !placement || !haveSameAxes(placement, actual))
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    // A loss of a wrong type says nothing of its seed's.
    if (!isLoss(entry.placement))
      continue;
    AxisPlacement expected = *dist::dual(entry.placement), found = *actual.get(entry.axis);
    if (expected == found)
      continue;
    InFlightDiagnostic diagnostic =
        seed.error() << " as " << found << " on axis \"" << entry.axis.getValue() << "\", expected "
                     << expected << ", the seed of a loss that is " << entry.placement
                     << "; the types are " << seed.value.getType() << " and "
                     << loss->value.getType();
    noteOrigin(diagnostic, loss->value, "the loss");
    return diagnostic;
  }
  return success();
}

LogicalResult SignatureChecker::run() {
  bool isRight = true;
  for (const Port &port : ports) {
    switch (port.role.getKind()) {
    case RoleKind::Loss:
      isRight &= succeeded(checkLoss(port));
      continue;
    case RoleKind::Gradient:
      isRight &= succeeded(checkGradient(port));
      break;
    case RoleKind::Seed:
      isRight &= succeeded(checkSeed(port));
      break;
    default:
      break;
    }
    isRight &= succeeded(checkCrossing(port));
  }
  return success(isRight);
}

LogicalResult cleave::placement::checkSignatures(ModuleOp module) {
  return SignatureChecker(module).run();
}
