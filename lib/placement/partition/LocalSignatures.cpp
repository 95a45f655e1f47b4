//===- LocalSignatures.cpp - the types of local functions --------------------------===//

#include "lib/placement/partition/LocalSignatures.h"
#include "dialects/dist/Placed.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisPlacement;
using train::RoleKind;

InFlightDiagnostic LocalSignatures::Port::error() const {
  auto at = func::FuncOp(function);
  InFlightDiagnostic diagnostic =
      emitError(isResult ? at.front().getTerminator()->getLoc() : at.getArgument(number).getLoc());
  diagnostic << "'" << at.getName() << "' " << (isResult ? "result " : "argument ") << number;
  if (role)
    diagnostic << ", " << role << ",";
  return diagnostic;
}

Type LocalSignatures::Port::type() const {
  auto type = func::FuncOp(function).getFunctionType();
  return isResult ? type.getResult(number) : type.getInput(number);
}

LogicalResult LocalSignatures::collect() {
  bool isRight = true;
  // Where placements were not propagated, nothing has one: that is one error.
  SmallVector<unsigned> unplaced;
  auto add = [&](Port port, dist::PlacementAttr placement) {
    if (port.role && port.role.getOver()) {
      port.error() << " is divided over " << port.role.getOver()
                   << " already (--sync-gradients); partition the program without that";
      isRight = false;
    }
    if (isa<RankedTensorType>(port.type()) && !placement) {
      unplaced.push_back(ports.size());
    } else if (isa<RankedTensorType>(port.type())) {
      FailureOr<AxisPlacements> entries =
          context.entriesOf(placement, [&] { return port.error(); });
      isRight &= succeeded(entries);
      if (succeeded(entries))
        port.entries = *entries;
    }
    ports.push_back(std::move(port));
  };
  for (func::FuncOp function : functions) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      add({function, i, false, train::getArgumentRole(function, i), {}},
          function.getArgAttrOfType<dist::PlacementAttr>(i, dist::kPlacementAttr));
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      add({function, i, true, train::getResultRole(function, i), {}},
          function.getResultAttrOfType<dist::PlacementAttr>(i, dist::kPlacementAttr));
  }
  if (unplaced.empty())
    return success(isRight);
  const Port &first = ports[unplaced.front()];
  return context.entriesOf(nullptr, [&] {
    InFlightDiagnostic diagnostic = first.error();
    if (unplaced.size() > 1)
      diagnostic.attachNote() << "neither have " << unplaced.size() - 1
                              << " more arguments and results of the program";
    return diagnostic;
  });
}

/// What is one thing to the functions of a program: an accumulator and its gradient, say. Null for
/// what functions do not hand each other.
static Attribute keyOf(train::RoleAttr role, func::FuncOp function) {
  MLIRContext *context = role.getContext();
  switch (role.getKind()) {
  case RoleKind::Parameter:
  case RoleKind::Buffer:
  case RoleKind::Constant:
  case RoleKind::Input:
  case RoleKind::Target:
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient:
    return train::RoleAttr::get(context, role.getKind(), role.getNameOrEmpty());
  case RoleKind::OptimizerState:
    return train::RoleAttr::get(context, role.getKind(), role.getName(), role.getSlot(),
                                std::nullopt, ArrayAttr(), ArrayAttr(), UnitAttr());
  case RoleKind::Accumulator:
  case RoleKind::Gradient: {
    // What a function of phase reduce returns has another placement.
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
    if (phase && (phase.getValue() == train::Phase::Reduce))
      return {};
    return train::RoleAttr::get(context, RoleKind::Gradient, role.getNameOrEmpty());
  }
  default:
    return {};
  }
}

LogicalResult LocalSignatures::compareFunctions() {
  DenseMap<Attribute, unsigned> first;
  bool isRight = true;
  for (auto [i, port] : llvm::enumerate(ports)) {
    Attribute key = port.role ? keyOf(port.role, port.function) : Attribute();
    if (!key || port.entries.empty())
      continue;
    auto [it, isNew] = first.try_emplace(key, i);
    const Port &other = ports[it->second];
    if (isNew || other.entries == port.entries)
      continue;
    InFlightDiagnostic diagnostic = port.error()
                                    << " is placed as " << describe(port.entries) << ", expected "
                                    << describe(other.entries) << " as elsewhere in the program";
    diagnostic.attachNote(func::FuncOp(other.function).getLoc())
        << "'" << func::FuncOp(other.function).getName() << "' has it as "
        << (other.isResult ? "result " : "argument ") << other.number;
    isRight = false;
  }
  return success(isRight);
}

/// Rule 6: R is dual to P, I to I, S to S.
LogicalResult LocalSignatures::findInvariants() {
  DenseMap<StringAttr, const Port *> values;
  lossIsPartial.assign(context.axes.size(), false);
  for (const Port &port : ports) {
    if (!port.role)
      continue;
    if (!port.isResult &&
        (port.role.getKind() == RoleKind::Parameter || port.role.getKind() == RoleKind::Input)) {
      auto [it, isNew] = values.try_emplace(port.role.getName(), &port);
      if (!isNew && port.role.getKind() == RoleKind::Parameter)
        it->second = &port;
    }
    if (port.isResult && port.role.getKind() == RoleKind::Loss)
      for (auto [axis, entry] : llvm::enumerate(port.entries))
        lossIsPartial[axis] = entry.isPartialSum();
  }
  bool isRight = true;
  for (const Port &port : ports) {
    if (!port.role || port.role.getKind() != RoleKind::Gradient || !keyOf(port.role, port.function))
      continue;
    const Port *of = values.lookup(port.role.getName());
    if (!of)
      continue;
    SmallVector<bool, 2> &invariant = invariants[port.role.getName()];
    invariant.assign(context.axes.size(), false);
    for (unsigned axis = 0; axis < context.axes.size(); ++axis) {
      AxisPlacement value = of->entries[axis], gradient = port.entries[axis];
      invariant[axis] = value.isReplicate() && gradient.isReplicate();
      if (invariant[axis] || (value.isReplicate() && gradient.isPartialSum()) ||
          (value.isShard() && gradient == value))
        continue;
      port.error() << " is placed as " << gradient << " on axis \""
                   << context.axes[axis].name.getValue() << "\", expected "
                   << (value.isShard() ? toString(value) : "P or R")
                   << ": it is the gradient of a value that is " << value;
      isRight = false;
    }
  }
  return success(isRight);
}

bool LocalSignatures::isInvariant(const Port &port, unsigned axis) const {
  if (!port.role || !port.entries[axis].isReplicate())
    return false;
  switch (port.role.getKind()) {
  case RoleKind::Loss:
    return true;
  case RoleKind::Seed:
    return !lossIsPartial[axis];
  case RoleKind::Parameter:
  case RoleKind::Input:
  case RoleKind::Gradient:
  case RoleKind::Accumulator:
  case RoleKind::OptimizerState: {
    auto it = invariants.find(port.role.getName());
    return it != invariants.end() && it->second[axis];
  }
  default:
    return false;
  }
}

LogicalResult LocalSignatures::makeTypes() {
  bool isRight = true;
  for (const Port &port : ports) {
    LocalSignature &signature = signatures[port.function];
    SmallVector<Type> &types = port.isResult ? signature.results : signature.arguments;
    if (port.isResult)
      signature.resultEntries.push_back(port.entries);
    auto global = dyn_cast<RankedTensorType>(port.type());
    if (!global) {
      types.push_back(port.type());
      continue;
    }
    FailureOr<RankedTensorType> local =
        context.localType(global, port.entries, [&] { return port.error(); });
    if (failed(local)) {
      isRight = false;
      types.push_back(global);
      continue;
    }
    AxisPlacements entries = port.entries;
    for (auto [axis, entry] : llvm::enumerate(entries))
      if (isInvariant(port, axis))
        entry = AxisPlacement::invariant();
    types.push_back(dist::withPlacement(*local, context.attributeOf(entries)));
  }
  return success(isRight);
}

LogicalResult LocalSignatures::run() {
  return success(succeeded(collect()) && succeeded(compareFunctions()) &&
                 succeeded(findInvariants()) && succeeded(makeTypes()));
}
