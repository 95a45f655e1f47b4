//===- Explain.cpp - why each tensor is placed as it is --------------------===//

#include "lib/placement/propagate/Explain.h"
#include "dialects/aten/ops/Call.h"
#include "lib/placement/Form.h"
#include "lib/placement/RuleLocation.h"
#include "lib/typing/ConflictText.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;
using dist::PlacementAttr;

Explanation::Explanation(const Propagation &propagation)
    : p(propagation), graph(*propagation.graph), planner(propagation.axes),
      costs(propagation.axes, propagation.machine), roots(propagation.axes.size()) {
  findRedistributions();
}

//===----------------------------------------------------------------------===//
// Redistributions
//===----------------------------------------------------------------------===//

void Explanation::findRedistributions() {
  for (auto [number, value] : llvm::enumerate(graph.values)) {
    llvm::MapVector<Attribute, SmallVector<unsigned, 2>> byTarget;
    for (unsigned use : value.uses)
      if (p.taken[use] != p.made[number])
        byTarget[p.taken[use]].push_back(use);
    for (auto &[target, uses] : byTarget) {
      Redistributed entry{static_cast<unsigned>(number), p.made[number],
                          cast<PlacementAttr>(target), uses, nullptr};
      entry.plan = planner.plan(value.type(), entry.from, entry.to);
      if (entry.plan)
        entry.seconds = costs.timeOf(value.type(), planner.entriesOf(entry.from), *entry.plan);
      redistributions.push_back(std::move(entry));
    }
  }
}

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

/// "'aten.mm' (h.0.attn)", or what a port is.
std::string Explanation::nameOf(unsigned number) const {
  const ValueNode &value = graph.values[number];
  if (value.op == kNone)
    return graph.ports[value.port].describe();
  Operation *op = graph.ops[value.op].op;
  std::string text = "the result of '" + op->getName().getStringRef().str() + "'";
  if (op->getNumResults() > 1)
    text = "result " + std::to_string(value.result) + " of '" + op->getName().getStringRef().str() +
           "'";
  return text;
}

/// "gpt.py:57", with the module's path where known: "h.0.attn (gpt.py:57)".
static std::string locationText(Location location) {
  std::string file, module;
  location->walk([&](Location part) {
    if (auto line = dyn_cast<FileLineColLoc>(part); line && file.empty())
      file = (line.getFilename().getValue() + ":" + llvm::Twine(line.getLine())).str();
    if (auto name = dyn_cast<NameLoc>(part); name && module.empty())
      module = name.getName().getValue();
    return WalkResult::advance();
  });
  if (module.empty())
    return file;
  return file.empty() ? module : module + " (" + file + ")";
}

/// " by rules[3] (train.py:14)" where a plan has annotated the value at this location.
static std::string byRule(Location location, StringRef axis) {
  StringRef rule = getRule(location, axis);
  return rule.empty() ? "" : (" by " + rule).str();
}

/// Places are reached once, so the way back ends.
unsigned Explanation::findRoot(unsigned number, unsigned dim, unsigned axis) const {
  const auto &reached = p.records[axis].candidates.reached;
  auto &known = roots[axis];
  SmallVector<std::pair<unsigned, unsigned>> way;
  std::pair<unsigned, unsigned> place = {number, dim};
  unsigned root = number;
  while (true) {
    auto at = reached.find(place);
    if (at == reached.end() || at->second.value == kNone)
      break;
    if (auto found = known.find(place); found != known.end()) {
      root = found->second;
      break;
    }
    way.push_back(place);
    root = at->second.value;
    if (at->second.annotatedUse != kNone)
      break;
    place = {at->second.value, static_cast<unsigned>(at->second.dim)};
  }
  for (auto each : way)
    known[each] = root;
  return root;
}

/// Why the sharding of the value came from elsewhere; none if nothing led here.
std::optional<Explanation::Reason> Explanation::follows(unsigned number, unsigned axis) const {
  AxisPlacement made = p.solutions[axis].made[number];
  const auto &reached = p.records[axis].candidates.reached;
  if (!made.isShard())
    return std::nullopt;
  auto at = reached.find({number, static_cast<unsigned>(made.dim)});
  if (at == reached.end() || at->second.value == kNone)
    return std::nullopt;
  const Origin &origin = at->second;
  Reason reason{Kind::Follows, "", origin.value};
  llvm::raw_string_ostream os(reason.text);
  os << "follows S(" << origin.dim << ") of " << nameOf(origin.value);
  if (origin.op != kNone) {
    os << " through '" << graph.ops[origin.op].op->getName() << "'";
    reason.loc = graph.ops[origin.op].op->getLoc();
  } else {
    os << ", which has the same role";
  }
  reason.root = findRoot(number, static_cast<unsigned>(made.dim), axis);
  if (reason.root != origin.value)
    os << "; it originates from " << nameOf(reason.root);
  return reason;
}

Explanation::Reason Explanation::reasonForPort(const Port &port, unsigned axis) const {
  const Candidates &candidates = p.records[axis].candidates;
  StringAttr name = p.axes[axis].name;
  for (unsigned i : graph.groups[port.group].ports) {
    const Port &other = graph.ports[i];
    PlacementAttr annotation = other.getAnnotation();
    if (!annotation || !annotation.get(name) ||
        (other.slot == Slot::State && other.role != port.role))
      continue;
    return {Kind::Tied,
            "is placed with " + other.describe() + ", which is annotated " +
                dist::toString(*annotation.get(name)) + byRule(other.getLoc(), name),
            other.value, other.value, other.getLoc()};
  }
  if (auto reason = follows(port.value, axis); reason && !port.isResult)
    return *reason;
  if (candidates.groups[port.group].size() == 1)
    return {Kind::Only, "no annotation reaches it"};
  return {Kind::Cheapest, "is the cheapest of " +
                              std::to_string(candidates.groups[port.group].size()) + " options"};
}

Explanation::Reason Explanation::reasonFor(unsigned number, unsigned axis) const {
  const ValueNode &value = graph.values[number];
  Location loc = value.op != kNone ? graph.ops[value.op].op->getLoc() : value.value.getLoc();
  if (graph.getAnnotation(value, p.axes[axis].name))
    return {Kind::Annotation, "is annotated" + byRule(loc, p.axes[axis].name), kNone, number, loc};
  if (value.op == kNone)
    return reasonForPort(graph.ports[value.port], axis);
  if (auto reason = follows(number, axis))
    return *reason;
  const OpNode &op = graph.ops[value.op];
  size_t count = p.records[axis].candidates.ops[value.op].size();
  const AxisStrategy &strategy = p.solutions[axis].strategies[value.op];
  if (strategy.form)
    return {Kind::Cheapest, ("follows from the form \"" + strategy.form->name() + "\"").str()};
  bool isAnnotated = llvm::any_of(op.operands, [&](unsigned use) {
    return use != kNone && graph.getAnnotation(graph.uses[use], p.axes[axis].name);
  });
  if (isAnnotated && count == 1)
    return {Kind::Annotation, "follows from the annotations of its operands", kNone, number, loc};
  if (count == 1)
    return {Kind::Only, "no annotation reaches the op"};
  return {Kind::Cheapest, "is the cheapest of the op's " + std::to_string(count) + " strategies"};
}

/// By `Kind`.
static constexpr StringRef kKindNames[] = {"annotation", "tied", "follows", "cheapest", "only"};

/// What every way costs, all else being as decided.
llvm::json::Array Explanation::costsOf(const ValueNode &value, unsigned axis) const {
  const AxisRecord &record = p.records[axis];
  llvm::json::Array list;
  auto names = [](ArrayRef<AxisPlacement> placements) {
    llvm::json::Array array;
    for (AxisPlacement placement : placements)
      array.push_back(dist::toString(placement));
    return array;
  };
  if (value.op != kNone) {
    for (auto [i, strategy] : llvm::enumerate(record.candidates.ops[value.op])) {
      llvm::json::Object entry{{"operands", names(strategy.operands)},
                               {"results", names(strategy.results)},
                               {"seconds", record.problem->costOf(value.op, i)},
                               {"chosen", record.problem->getChoice(value.op) == i}};
      if (strategy.form)
        entry["form"] = strategy.form->name();
      list.push_back(std::move(entry));
    }
    return list;
  }
  unsigned group = graph.ports[value.port].group;
  for (auto [i, choice] : llvm::enumerate(record.candidates.groups[group]))
    list.push_back(llvm::json::Object{{"placement", dist::toString(choice.self)},
                                      {"gradient", dist::toString(choice.gradient)},
                                      {"seconds", record.problem->costOfGroup(group, i)},
                                      {"chosen", record.problem->getGroupChoice(group) == i}});
  return list;
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

static StringRef stepName(RedistributionStep::Kind kind) {
  switch (kind) {
  case RedistributionStep::Kind::AllReduce:
    return "all_reduce";
  case RedistributionStep::Kind::ReduceScatter:
    return "reduce_scatter";
  case RedistributionStep::Kind::AllGather:
    return "all_gather";
  case RedistributionStep::Kind::AllToAll:
    return "all_to_all";
  case RedistributionStep::Kind::Convert:
    return "convert";
  case RedistributionStep::Kind::Reinterpret:
    return "reinterpret";
  }
  llvm_unreachable("all kinds are handled");
}

static std::string printPlan(const Redistribution *plan) {
  if (!plan)
    return "no sequence of collectives";
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(
      plan->steps, os,
      [&](const RedistributionStep &step) {
        os << stepName(step.kind) << " over ";
        llvm::interleave(step.axes, os, [&](StringAttr axis) { os << axis.getValue(); }, ", ");
      },
      ", then ");
  return text;
}

void Explanation::emitRemarks() const {
  for (unsigned value = 0; value < graph.values.size(); ++value) {
    Location loc = graph.values[value].value.getLoc();
    InFlightDiagnostic remark = emitRemark(loc);
    remark << nameOf(value) << " is placed ";
    for (auto [axis, info] : llvm::enumerate(p.axes)) {
      Reason reason = reasonFor(value, axis);
      remark << (axis ? "; " : "") << info.name.getValue() << " = " << *p.made[value].get(info.name)
             << ": " << reason.text;
      if (reason.loc && *reason.loc != loc && reason.kind != Kind::Follows)
        remark.attachNote(*reason.loc) << "on axis \"" << info.name.getValue() << "\"";
    }
  }
  for (const Redistributed &entry : redistributions) {
    OpOperand &operand = graph.getOperand(graph.uses[entry.uses.front()]);
    InFlightDiagnostic remark = emitRemark(operand.getOwner()->getLoc());
    remark << "operand " << operand.getOperandNumber() << " of '" << operand.getOwner()->getName()
           << "' is redistributed from " << entry.from << " to " << entry.to << " by "
           << printPlan(entry.plan);
    if (entry.plan)
      remark << ", of which a rank sends " << entry.plan->bytes << " bytes";
    if (entry.uses.size() > 1)
      remark << ", once for " << entry.uses.size() << " uses";
  }
}

//===----------------------------------------------------------------------===//
// Ops without a rule
//===----------------------------------------------------------------------===//

const char *propagate::reasonToReplicate(Operation *op) {
  // Numbers, and tensors of one, have no other way to run.
  auto isDivisible = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getRank() > 0;
  };
  if (llvm::none_of(op->getOperandTypes(), isDivisible) &&
      llvm::none_of(op->getResultTypes(), isDivisible))
    return nullptr;
  return getForms(op->getName()).empty() ? sharding::getShardingRule(op).opaqueReason : nullptr;
}

std::string propagate::operatorName(Operation *op) {
  auto aten = dyn_cast<aten::AtenOpInterface>(op);
  return "'" + (aten ? aten.getSchemaName() : op->getName().getStringRef()).str() + "'";
}

void Explanation::emitReplicatedRemarks() const {
  for (const OpNode &node : graph.ops) {
    const char *reason = reasonToReplicate(node.op);
    if (!reason)
      continue;
    InFlightDiagnostic remark = node.op->emitRemark()
                                << operatorName(node.op)
                                << " runs replicated on all ranks, because " << reason;
    for (auto [operand, use] : llvm::enumerate(node.operands)) {
      if (use == kNone)
        continue;
      unsigned value = graph.uses[use].value;
      const Redistribution *plan =
          planner.plan(graph.values[value].type(), p.made[value], p.taken[use]);
      if (plan && plan->bytes)
        remark << "; for " << describeOperand(node.op, operand) << " each rank sends "
               << plan->bytes << " bytes (" << printPlan(plan) << ")";
    }
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static llvm::json::Object byAxis(PlacementAttr placement) {
  llvm::json::Object object;
  for (const dist::AxisEntry &entry : placement.getEntries()) {
    bool several =
        entry.placement.isShard() && placement.getShardingAxes(entry.placement.dim).size() > 1;
    object[entry.axis.getValue()] = dist::toString(entry.placement, several);
  }
  return object;
}

static std::string toText(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

llvm::json::Object Explanation::describeValue(unsigned number) const {
  const ValueNode &value = graph.values[number];
  llvm::json::Object object{
      {"id", number},
      {"name", nameOf(number)},
      {"type", toText(value.type())},
      {"shape", llvm::json::Array(value.type().getShape())},
      {"bytes", value.bytes},
      {"placement", byAxis(p.made[number])},
  };
  SmallVector<AxisPlacement> placement = planner.entriesOf(p.made[number]);
  if (auto shape = localShape(value.type().getShape(), placement, p.axes))
    object["local_shape"] = llvm::json::Array(*shape);
  if (value.op != kNone) {
    Operation *op = graph.ops[value.op].op;
    object["op"] = op->getName().getStringRef();
    object["op_id"] = value.op;
    object["result"] = value.result;
    object["location"] = locationText(op->getLoc());
    object["backward"] = op->hasAttr(train::kBackwardAttrName);
  } else {
    const Port &port = graph.ports[value.port];
    object["argument"] = port.number;
    if (port.role) {
      object["role"] = train::stringifyRoleKind(port.role.getKind());
      object["role_name"] = port.role.getNameOrEmpty();
    }
    object["location"] = locationText(value.value.getLoc());
  }
  llvm::json::Array reasons;
  for (auto [axis, info] : llvm::enumerate(p.axes)) {
    Reason reason = reasonFor(number, axis);
    llvm::json::Object entry{{"axis", info.name.getValue()},
                             {"kind", kKindNames[static_cast<int>(reason.kind)]},
                             {"text", reason.text},
                             {"costs", costsOf(value, axis)}};
    if (reason.from != kNone)
      entry["from"] = reason.from;
    if (reason.root != kNone)
      entry["root"] = reason.root;
    if (reason.loc)
      entry["location"] = locationText(*reason.loc);
    reasons.push_back(std::move(entry));
  }
  object["reasons"] = std::move(reasons);
  return object;
}

llvm::json::Value Explanation::toJSON() const {
  llvm::json::Array axes;
  cost::Cluster cluster = p.machine.describe(p.axes);
  for (auto [axis, group] : llvm::zip_equal(p.axes, getGroups(p.axes))) {
    const cost::Level *level = cost::findLevel(cluster, group.stride);
    axes.push_back(
        llvm::json::Object{{"name", axis.name.getValue()},
                           {"size", axis.size},
                           {"bandwidth", level ? level->link.bandwidth * level->width : 0},
                           {"latency", level ? level->link.latency : 0}});
  }
  llvm::MapVector<Operation *, llvm::json::Object> functions;
  auto functionOf = [&](Value value) { return value.getParentBlock()->getParentOp(); };
  for (const Port &port : graph.ports)
    functions[func::FuncOp(port.function)];
  llvm::MapVector<Operation *, llvm::json::Array> tensors, redistributed, results, forms;
  for (auto [number, value] : llvm::enumerate(graph.values))
    tensors[functionOf(value.value)].push_back(describeValue(number));
  for (const Port &port : graph.ports) {
    if (!port.isResult)
      continue;
    llvm::json::Object object{
        {"result", port.number}, {"value", port.value}, {"placement", byAxis(p.taken[port.use])}};
    if (port.role) {
      object["role"] = train::stringifyRoleKind(port.role.getKind());
      object["role_name"] = port.role.getNameOrEmpty();
    }
    results[func::FuncOp(port.function)].push_back(std::move(object));
  }
  for (const Redistributed &entry : redistributions) {
    llvm::json::Array uses, steps;
    for (unsigned number : entry.uses) {
      const Use &use = graph.uses[number];
      OpOperand &operand = graph.getOperand(use);
      llvm::json::Object object{{"op", operand.getOwner()->getName().getStringRef()},
                                {"operand", use.operand},
                                {"location", locationText(operand.getOwner()->getLoc())}};
      if (use.op != kNone)
        object["op_id"] = use.op;
      uses.push_back(std::move(object));
    }
    if (entry.plan)
      for (const RedistributionStep &step : entry.plan->steps) {
        llvm::json::Array over;
        for (StringAttr axis : step.axes)
          over.push_back(axis.getValue());
        llvm::json::Object object{{"collective", stepName(step.kind)},
                                  {"axes", std::move(over)},
                                  {"communicates", step.communicates()}};
        if (step.kind == RedistributionStep::Kind::AllReduce ||
            step.kind == RedistributionStep::Kind::ReduceScatter)
          object["reduction"] = dist::stringifyReduction(step.reduction);
        steps.push_back(std::move(object));
      }
    redistributed[functionOf(graph.values[entry.value].value)].push_back(
        llvm::json::Object{{"value", entry.value},
                           {"from", byAxis(entry.from)},
                           {"to", byAxis(entry.to)},
                           {"uses", std::move(uses)},
                           {"steps", std::move(steps)},
                           {"bytes", entry.plan ? llvm::json::Value(entry.plan->bytes) : nullptr},
                           {"seconds", entry.seconds}});
  }
  for (auto [number, op] : llvm::enumerate(graph.ops))
    for (auto [axis, info] : llvm::enumerate(p.axes))
      if (const AxisStrategy &strategy = p.solutions[axis].strategies[number]; strategy.form)
        forms[op.op->getParentOp()].push_back(
            llvm::json::Object{{"op", op.op->getName().getStringRef()},
                               {"op_id", number},
                               {"axis", info.name.getValue()},
                               {"form", strategy.form->name()},
                               {"bytes", strategy.bytes},
                               {"location", locationText(op.op->getLoc())}});
  llvm::json::Array list;
  for (auto &[function, object] : functions) {
    object["name"] = cast<func::FuncOp>(function).getName();
    if (auto phase = function->getAttrOfType<train::PhaseAttr>(train::kPhaseAttrName))
      object["phase"] = train::stringifyPhase(phase.getValue());
    object["tensors"] = std::move(tensors[function]);
    object["results"] = std::move(results[function]);
    object["redistributions"] = std::move(redistributed[function]);
    object["forms"] = std::move(forms[function]);
    list.push_back(std::move(object));
  }
  dist::MeshOp mesh = p.mesh;
  StringRef program = mesh->getParentOfType<ModuleOp>().getSymName().value_or("");
  return llvm::json::Object{
      {"version", 1},
      {"program", program},
      {"mesh", llvm::json::Object{{"name", mesh.getSymName()}, {"axes", std::move(axes)}}},
      {"functions", std::move(list)}};
}

LogicalResult propagate::writeExplanation(const Explanation &explanation, StringRef path,
                                          ModuleOp module) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error, llvm::sys::fs::OF_Text);
  if (!error) {
    file << explanation.toJSON() << "\n";
    file.close();
    error = file.error();
    file.clear_error();
  }
  if (error)
    return module.emitError("cannot write the explanation to '")
           << path << "': " << error.message();
  return success();
}
