//===- Graph.cpp - numbers a program's ops and values, and ties its ports ----===//

#include "lib/placement/propagate/Graph.h"
#include "lib/memory/MemoryPlan.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;
using dist::PlacementAttr;
using train::RoleAttr;
using train::RoleKind;

//===----------------------------------------------------------------------===//
// Annotations
//===----------------------------------------------------------------------===//

PlacementAttr Port::getAnnotation() const {
  auto f = func::FuncOp(function);
  return isResult ? f.getResultAttrOfType<PlacementAttr>(number, dist::kPlacementAttr)
                  : f.getArgAttrOfType<PlacementAttr>(number, dist::kPlacementAttr);
}

Location Port::getLoc() const {
  auto f = func::FuncOp(function);
  return isResult ? f.front().getTerminator()->getLoc() : f.getArgument(number).getLoc();
}

std::string Port::describe() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (role)
    os << role;
  else
    os << (isResult ? "result " : "argument ") << number;
  os << (isResult ? " that '" : " of '") << func::FuncOp(function).getName() << "'"
     << (isResult ? " returns" : "");
  return text;
}

static std::optional<AxisPlacement> onAxis(PlacementAttr placement, StringAttr axis) {
  if (!placement)
    return std::nullopt;
  std::optional<AxisPlacement> entry = placement.get(axis);
  if (entry)
    entry->order = 0;
  return entry;
}

OpOperand &Graph::getOperand(const Use &use) const {
  Operation *op = use.op != kNone ? ops[use.op].op
                                  : func::FuncOp(ports[use.port].function).front().getTerminator();
  return op->getOpOperand(use.operand);
}

PlacementAttr Graph::getAttribute(const ValueNode &value) const {
  return dist::getPlacementOf(value.value);
}

PlacementAttr Graph::getAttribute(const Use &use) const {
  return dist::getPlacementOf(getOperand(use));
}

std::optional<AxisPlacement> Graph::getAnnotation(const ValueNode &value, StringAttr axis) const {
  return onAxis(getAttribute(value), axis);
}

std::optional<AxisPlacement> Graph::getAnnotation(const Use &use, StringAttr axis) const {
  return onAxis(getAttribute(use), axis);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

LogicalResult Graph::checkFunction(func::FuncOp function) const {
  if (!function.getBody().hasOneBlock())
    return function.emitError("'")
           << function.getName() << "' has control flow; placements are propagated in functions of "
           << "one block";
  for (Operation &op : function.getOps()) {
    if (isa<dist::DistDialect>(op.getDialect()))
      return op.emitOpError(
          "communicates; placements are propagated in programs for a single device, as exported");
    if (op.getNumRegions())
      return op.emitOpError("has regions; placements are propagated in functions of plain ops");
    for (Type type : op.getResultTypes())
      if (dist::getPlacement(type))
        return op.emitOpError("produces ")
               << type << ", what one rank holds; a program whose placements are propagated says "
               << "them in attributes (dist.placement, dist.results, dist.operands)";
  }
  for (BlockArgument argument : function.getArguments())
    if (dist::getPlacement(argument.getType()))
      return emitError(argument.getLoc())
             << "'" << function.getName() << "' takes " << argument.getType()
             << ", what one rank holds; a program whose placements are propagated declares them "
                "in attributes (dist.placement)";
  return success();
}

void Graph::addFunction(func::FuncOp function, double weight, bool isOnce) {
  auto addValue = [&](Value value) {
    if (!isa<RankedTensorType>(value.getType()))
      return kNone;
    ValueNode &node = values.emplace_back();
    node.value = value;
    node.bytes = static_cast<double>(memory::getByteSize(value.getType()));
    node.weight = weight;
    valueOf[value] = values.size() - 1;
    return static_cast<unsigned>(values.size() - 1);
  };
  auto addUse = [&](OpOperand &operand) {
    auto value = valueOf.find(operand.get());
    if (value == valueOf.end())
      return kNone;
    Use &use = uses.emplace_back();
    use.value = value->second;
    use.operand = operand.getOperandNumber();
    values[use.value].uses.push_back(uses.size() - 1);
    return static_cast<unsigned>(uses.size() - 1);
  };
  for (BlockArgument argument : function.getArguments()) {
    unsigned value = addValue(argument);
    if (value == kNone)
      continue;
    values[value].port = ports.size();
    ports.push_back({function, argument.getArgNumber(), false,
                     train::getArgumentRole(function, argument.getArgNumber())});
    ports.back().value = value;
  }
  for (Operation &op : function.front().without_terminator()) {
    OpNode node{&op};
    node.weight = weight;
    node.isOnce = isOnce;
    for (OpOperand &operand : op.getOpOperands()) {
      node.operands.push_back(addUse(operand));
      if (node.operands.back() != kNone)
        uses.back().op = ops.size();
    }
    for (OpResult result : op.getResults()) {
      node.results.push_back(addValue(result));
      if (node.results.back() != kNone) {
        values.back().op = ops.size();
        values.back().result = result.getResultNumber();
      }
    }
    ops.push_back(std::move(node));
  }
  for (OpOperand &operand : function.front().getTerminator()->getOpOperands()) {
    unsigned use = addUse(operand);
    if (use == kNone)
      continue;
    uses[use].port = ports.size();
    ports.push_back({function, operand.getOperandNumber(), true,
                     train::getResultRole(function, operand.getOperandNumber())});
    ports.back().value = uses[use].value;
    ports.back().use = use;
  }
}

//===----------------------------------------------------------------------===//
// Ties
//===----------------------------------------------------------------------===//

/// By which ports with this role are tied; empty if they are not.
static std::string tieKey(RoleAttr role, Type type, const llvm::StringMap<Type> &parameters) {
  std::string name = role.getNameOrEmpty().str();
  auto shapeOf = [](Type type) { return cast<RankedTensorType>(type).getShape(); };
  switch (role.getKind()) {
  case RoleKind::OptimizerState:
    // State of another shape (the sums of rows and columns of a matrix) is placed on its own.
    if (auto found = parameters.find(name);
        found != parameters.end() && shapeOf(found->second) != shapeOf(type))
      return "optimizer_state " + name + " slot " + role.getSlotOrEmpty().str();
    [[fallthrough]];
  case RoleKind::Parameter:
    return "parameter " + name;
  case RoleKind::Gradient:
  case RoleKind::Accumulator:
    return (parameters.contains(name) ? "parameter " : "input ") + name;
  case RoleKind::Input:
    return "input " + name;
  case RoleKind::Target:
  case RoleKind::Buffer:
  case RoleKind::Constant:
  case RoleKind::Saved:
  case RoleKind::Crossing:
  case RoleKind::CrossingGradient:
    return train::stringifyRoleKind(role.getKind()).str() + " " + name;
  case RoleKind::Seed:
  case RoleKind::Loss:
  case RoleKind::Output:
  case RoleKind::Step:
  case RoleKind::RngSeed:
  case RoleKind::RngOffset:
  case RoleKind::StageSum:
  case RoleKind::LossScale:
    return "";
  }
  llvm_unreachable("all roles are handled");
}

static Slot slotOf(RoleAttr role) {
  if (!role)
    return Slot::Self;
  switch (role.getKind()) {
  case RoleKind::Gradient:
  case RoleKind::Accumulator:
    return Slot::Gradient;
  case RoleKind::OptimizerState:
    return Slot::State;
  default:
    return Slot::Self;
  }
}

void Graph::tie() {
  llvm::StringMap<Type> parameters;
  for (const Port &port : ports)
    if (port.role && port.role.getKind() == RoleKind::Parameter)
      parameters[port.role.getNameOrEmpty()] = values[port.value].value.getType();
  llvm::StringMap<unsigned> byKey;
  for (auto [number, port] : llvm::enumerate(ports)) {
    std::string key =
        port.role ? tieKey(port.role, values[port.value].value.getType(), parameters) : "";
    port.slot = slotOf(port.role);
    auto [it, isNew] = byKey.try_emplace(key, groups.size());
    if (key.empty() || isNew) {
      port.group = groups.size();
      groups.emplace_back();
    } else {
      port.group = it->second;
    }
    if (key.empty())
      byKey.erase("");
    Group &group = groups[port.group];
    group.ports.push_back(number);
    group.hasGradient |= port.slot == Slot::Gradient;
    if (port.role && (port.slot == Slot::Self || !group.kind))
      group.kind = port.slot == Slot::Self ? port.role.getKind() : RoleKind::Parameter;
  }
}

FailureOr<Graph> Graph::build(ModuleOp module, double microbatches) {
  Graph graph;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      continue;
    if (failed(graph.checkFunction(function)))
      return failure();
    auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName);
    bool isOnce = phase && llvm::is_contained(
                               {train::Phase::Update, train::Phase::Reduce, train::Phase::Unshard},
                               phase.getValue());
    graph.addFunction(function, isOnce ? 1 : microbatches, isOnce);
  }
  graph.tie();
  return graph;
}
