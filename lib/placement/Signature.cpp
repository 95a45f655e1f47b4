//===- Signature.cpp - the types of a program function's arguments and results -===//

#include "dialects/dist/Dist.h"
#include "dialects/train/Program.h"
#include "lib/placement/Check.h"
#include "lib/placement/ConflictText.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;
using train::RoleAttr;
using train::RoleKind;

namespace {

class SignatureChecker {
public:
  explicit SignatureChecker(func::FuncOp function)
      : function(function), terminator(function.front().getTerminator()) {}

  LogicalResult run();

private:
  /// An argument, or what is returned as a result.
  struct Port {
    Value value;
    RoleAttr role;
    bool isResult;
  };

  Port argument(unsigned i) {
    return {function.getArgument(i), train::getArgumentRole(function, i), false};
  }
  Port result(unsigned i) {
    return {terminator->getOperand(i), train::getResultRole(function, i), true};
  }
  InFlightDiagnostic error(const Port &port) {
    return emitError(port.isResult ? terminator->getLoc() : port.value.getLoc())
           << "'" << function.getName() << "' " << (port.isResult ? "returns " : "takes ")
           << port.role;
  }
  std::optional<Port> findArgument(RoleKind kind, StringAttr name);

  LogicalResult checkCrossing(const Port &port);
  LogicalResult checkGradient(const Port &gradient);
  LogicalResult checkLoss(const Port &loss);
  LogicalResult checkSeed(const Port &seed, const Port &loss);

  func::FuncOp function;
  Operation *terminator;
};

} // namespace

std::optional<SignatureChecker::Port> SignatureChecker::findArgument(RoleKind kind,
                                                                     StringAttr name) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (RoleAttr role = train::getArgumentRole(function, i);
        role.getKind() == kind && role.getName() == name)
      return argument(i);
  return std::nullopt;
}

/// Rule 6: nobody could put together what varies without a known order. The offset of random
/// numbers is no data of the caller's: the runtime computes each rank's.
LogicalResult SignatureChecker::checkCrossing(const Port &port) {
  PlacementAttr placement = dist::getPlacement(port.value.getType());
  if (!placement || port.role.getKind() == RoleKind::RngOffset)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    if (!entry.placement.isVarying())
      continue;
    InFlightDiagnostic diagnostic = error(port)
                                    << " as V on axis \"" << entry.axis.getValue()
                                    << "\", which says nothing of what the ranks hold together; ";
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

LogicalResult SignatureChecker::checkGradient(const Port &gradient) {
  std::optional<Port> of = findArgument(RoleKind::Parameter, gradient.role.getName());
  if (!of)
    of = findArgument(RoleKind::Input, gradient.role.getName());
  PlacementAttr actual = dist::getPlacement(gradient.value.getType());
  if (!of || !actual)
    return success();
  PlacementAttr placement = dist::getPlacement(of->value.getType());
  if (!placement)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    FailureOr<AxisPlacement> expected = dist::dual(entry.placement);
    AxisPlacement found = *actual.get(entry.axis);
    if (succeeded(expected) && *expected == found)
      continue;
    InFlightDiagnostic diagnostic = error(gradient) << " as " << found << " on axis \""
                                                    << entry.axis.getValue() << "\", ";
    if (failed(expected)) {
      diagnostic << "but what is " << entry.placement << " has no gradient";
    } else {
      diagnostic << "expected " << *expected << ", the type of the gradient of what is "
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
    noteOrigin(diagnostic, of->value, "what it is the gradient of");
    if (gradient.isResult)
      noteOrigin(diagnostic, gradient.value, "the gradient");
    return diagnostic;
  }
  return success();
}

LogicalResult SignatureChecker::checkLoss(const Port &loss) {
  PlacementAttr placement = dist::getPlacement(loss.value.getType());
  if (!placement)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    AxisPlacement found = entry.placement;
    if (found.isInvariant() || found.isPartialSum())
      continue;
    InFlightDiagnostic diagnostic = error(loss) << " as " << found << " on axis \""
                                                << entry.axis.getValue() << "\", expected I or P";
    if (found.isReplicate())
      diagnostic << ": the backward would start on every rank, and each gradient be counted as "
                    "often; insert dist.convert from R to I where all ranks compute one loss, or "
                    "dist.convert from R to P";
    else if (found.isPartial())
      diagnostic << ": no gradient passes the pending reduction; insert dist.all_reduce "
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
LogicalResult SignatureChecker::checkSeed(const Port &seed, const Port &loss) {
  PlacementAttr actual = dist::getPlacement(seed.value.getType());
  PlacementAttr placement = dist::getPlacement(loss.value.getType());
  if (!actual || !placement)
    return success();
  for (const AxisEntry &entry : placement.getEntries()) {
    FailureOr<AxisPlacement> expected = dist::dual(entry.placement);
    AxisPlacement found = *actual.get(entry.axis);
    if (failed(expected) || *expected == found)
      continue;
    InFlightDiagnostic diagnostic =
        error(seed) << " as " << found << " on axis \"" << entry.axis.getValue() << "\", expected "
                    << *expected << ", the seed of a loss that is " << entry.placement
                    << "; the types are " << seed.value.getType() << " and "
                    << loss.value.getType();
    noteOrigin(diagnostic, loss.value, "the loss");
    return diagnostic;
  }
  return success();
}

LogicalResult SignatureChecker::run() {
  bool isRight = true;
  auto check = [&](LogicalResult result) { isRight &= succeeded(result); };
  std::optional<Port> seed, loss;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    Port port = argument(i);
    check(checkCrossing(port));
    if (port.role.getKind() == RoleKind::Gradient)
      check(checkGradient(port));
    if (port.role.getKind() == RoleKind::Seed)
      seed = port;
  }
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i) {
    Port port = result(i);
    if (port.role.getKind() == RoleKind::Loss) {
      loss = port;
      check(checkLoss(port));
      continue;
    }
    check(checkCrossing(port));
    if (port.role.getKind() == RoleKind::Gradient)
      check(checkGradient(port));
  }
  if (isRight && seed && loss)
    check(checkSeed(*seed, *loss));
  return success(isRight);
}

LogicalResult cleave::placement::checkSignature(func::FuncOp function) {
  if (function.isExternal() || !function->hasAttr(train::kPhaseAttrName))
    return success();
  return SignatureChecker(function).run();
}
