//===- Candidates.cpp - spreads shardings from annotations -----------------===//

#include "lib/placement/propagate/Candidates.h"
#include "lib/placement/propagate/Compatible.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;
using train::RoleKind;

static constexpr unsigned kLevels = 2;

class Candidates::Builder {
public:
  Builder(const Graph &graph, MeshAxis axis, ArrayRef<AxisSolution> earlier)
      : graph(graph), axis(axis), earlier(earlier) {}

  LogicalResult run(Reach reach);
  Candidates result;

private:
  /// Where a sharding has come to: dimension `dim` of a value, which concerns all who use it.
  struct Place {
    unsigned value, dim;
  };
  struct GroupInfo {
    std::optional<AxisPlacement> self, gradient;
    /// Dimensions that were reached.
    llvm::SmallVector<unsigned, 2> dims;
  };

  LogicalResult readGroups();
  LogicalResult readOps();
  void spread(unsigned level);
  void reachEverything();
  void seed(unsigned level);
  unsigned levelOf(const Group &group) const;
  unsigned levelOf(const OpNode &op) const;
  void reach(Place place, Origin origin);
  void visitOp(unsigned op, unsigned level, bool isResult, unsigned position, unsigned dim,
               unsigned value, unsigned annotatedUse = kNone);
  bool mayFollowStorage(unsigned op, const AxisStrategy &strategy) const;
  void visitGroup(unsigned group, unsigned dim, unsigned value);
  void pass(const std::vector<char> &mayBePartial);
  std::vector<char> findPartials() const;
  bool isCandidate(unsigned op, unsigned strategy, const std::vector<char> &mayBePartial) const;
  bool fitsAnnotations(const OpNode &op, const AxisStrategy &strategy) const;
  LogicalResult chooseGroups();
  InFlightDiagnostic noStrategy(const OpNode &op, ArrayRef<AxisStrategy> all) const;

  const Graph &graph;
  MeshAxis axis;
  ArrayRef<AxisSolution> earlier;
  std::vector<GroupInfo> groups;
  /// By op: those that fit annotations and earlier axes, and whether each was reached.
  std::vector<SmallVector<AxisStrategy>> fitting;
  std::vector<SmallVector<char>> isReached;
  /// By op: the first level that reached it, 0 for none.
  std::vector<unsigned> level;
  std::vector<Place> queue;
};

AxisPlacement Candidates::getPort(unsigned port, const GroupChoice &choice) const {
  switch (graph->ports[port].slot) {
  case Slot::Self:
    return choice.self;
  case Slot::Gradient:
    return choice.gradient;
  case Slot::State:
    return states[port].value_or(choice.self);
  }
  llvm_unreachable("all slots are handled");
}

//===----------------------------------------------------------------------===//
// What annotations say
//===----------------------------------------------------------------------===//

static InFlightDiagnostic contradict(const Graph &graph, MeshAxis axis, unsigned port,
                                     AxisPlacement found, unsigned other, AxisPlacement first) {
  InFlightDiagnostic diagnostic = emitError(graph.ports[port].getLoc());
  diagnostic << graph.ports[port].describe() << " is annotated " << found << " on axis \""
             << axis.name.getValue() << "\", but " << graph.ports[other].describe()
             << " is annotated " << first;
  diagnostic.attachNote(graph.ports[other].getLoc()) << "the other annotation is here";
  return diagnostic;
}

LogicalResult Candidates::Builder::readGroups() {
  groups.resize(graph.groups.size());
  result.isGroupFixed.assign(graph.groups.size(), false);
  result.states.resize(graph.ports.size());
  for (auto [number, group] : llvm::enumerate(graph.groups)) {
    GroupInfo &info = groups[number];
    unsigned selfPort = kNone, gradientPort = kNone;
    llvm::StringMap<unsigned> statePorts;
    for (unsigned i : group.ports) {
      const Port &port = graph.ports[i];
      dist::PlacementAttr attribute = port.getAnnotation();
      std::optional<AxisPlacement> entry =
          attribute ? attribute.get(axis.name) : std::optional<AxisPlacement>();
      if (!entry)
        continue;
      entry->order = 0;
      if (port.slot == Slot::State) {
        auto [it, isNew] = statePorts.try_emplace(port.role.getSlotOrEmpty(), i);
        if (!isNew && *result.states[it->second] != *entry)
          return contradict(graph, axis, i, *entry, it->second, *result.states[it->second]);
        result.states[i] = entry;
        continue;
      }
      bool isSelf = port.slot == Slot::Self;
      std::optional<AxisPlacement> &known = isSelf ? info.self : info.gradient;
      unsigned &knownPort = isSelf ? selfPort : gradientPort;
      if (known && *known != *entry)
        return contradict(graph, axis, i, *entry, knownPort, *known);
      known = entry;
      knownPort = i;
    }
    for (unsigned i : group.ports)
      if (const Port &port = graph.ports[i]; port.slot == Slot::State)
        if (auto it = statePorts.find(port.role.getSlotOrEmpty()); it != statePorts.end())
          result.states[i] = result.states[it->second];
    // Rule 6 of docs/types.md: an S has an S gradient; the gradient of an R is P, or R where all
    // ranks compute all of it.
    if (info.self && info.gradient) {
      bool fits = info.self->isShard()
                      ? *info.gradient == *info.self
                      : info.gradient->isReplicate() || info.gradient->isPartialSum();
      if (!fits)
        return contradict(graph, axis, gradientPort, *info.gradient, selfPort, *info.self)
               << ": the gradient of S(d) is S(d), that of R is P or R";
    }
    if (info.gradient && info.gradient->isShard() && !info.self)
      info.self = info.gradient;
    result.isGroupFixed[number] = info.self.has_value();
    if (info.self && (group.kind == RoleKind::Input || group.kind == RoleKind::Target))
      result.isDataAxis |= info.self->isShard();
  }
  return success();
}

bool Candidates::Builder::fitsAnnotations(const OpNode &op, const AxisStrategy &strategy) const {
  for (auto [i, use] : llvm::enumerate(op.operands))
    if (use != kNone)
      if (auto entry = graph.getAnnotation(graph.uses[use], axis.name))
        if (strategy.operands[i] != *entry)
          return false;
  for (auto [i, value] : llvm::enumerate(op.results))
    if (value != kNone)
      if (auto entry = graph.getAnnotation(graph.values[value], axis.name))
        if (strategy.results[i] != *entry)
          return false;
  return true;
}

static void printStrategy(Diagnostic &diagnostic, const AxisStrategy &strategy) {
  llvm::interleaveComma(strategy.operands, diagnostic);
  diagnostic << " -> ";
  llvm::interleaveComma(strategy.results, diagnostic);
}

InFlightDiagnostic Candidates::Builder::noStrategy(const OpNode &op,
                                                   ArrayRef<AxisStrategy> all) const {
  InFlightDiagnostic diagnostic = op.op->emitOpError("cannot run along axis \"")
                                  << axis.name.getValue() << "\" as it is annotated (";
  auto print = [&](std::optional<AxisPlacement> entry) {
    if (entry)
      diagnostic << *entry;
    else
      diagnostic << "open";
  };
  llvm::interleave(
      op.operands,
      [&](unsigned use) {
        print(use == kNone ? std::nullopt : graph.getAnnotation(graph.uses[use], axis.name));
      },
      [&] { diagnostic << ", "; });
  diagnostic << " -> ";
  llvm::interleave(
      op.results,
      [&](unsigned value) {
        print(value == kNone ? std::nullopt : graph.getAnnotation(graph.values[value], axis.name));
      },
      [&] { diagnostic << ", "; });
  diagnostic << "); over " << axis.size << " ranks its strategies are";
  for (const AxisSolution &solution : earlier)
    if (solution.strategies[&op - graph.ops.data()].factor)
      diagnostic << ", axis \"" << solution.axis.name.getValue() << "\" being taken";
  diagnostic << ": ";
  Diagnostic &text = *diagnostic.getUnderlyingDiagnostic();
  llvm::interleave(
      all, [&](const AxisStrategy &strategy) { printStrategy(text, strategy); },
      [&] { text << "; "; });
  return diagnostic;
}

LogicalResult Candidates::Builder::readOps() {
  fitting.resize(graph.ops.size());
  isReached.resize(graph.ops.size());
  level.assign(graph.ops.size(), 0);
  Compatibility compatible(graph, axis, earlier);
  bool isRight = true;
  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    SmallVector<AxisStrategy> all = getStrategies(op.op, axis);
    llvm::erase_if(
        all, [&](const AxisStrategy &strategy) { return !compatible.fits(number, strategy); });
    bool isAnnotated = op.op->hasAttr(dist::kResultsAttr) || op.op->hasAttr(dist::kOperandsAttr);
    for (const AxisStrategy &strategy : all)
      if (!isAnnotated || fitsAnnotations(op, strategy))
        fitting[number].push_back(strategy);
    if (fitting[number].empty()) {
      noStrategy(op, all);
      isRight = false;
    }
    isReached[number].assign(fitting[number].size(), false);
  }
  return success(isRight);
}

//===----------------------------------------------------------------------===//
// Spreading
//===----------------------------------------------------------------------===//

unsigned Candidates::Builder::levelOf(const Group &group) const {
  bool isData = group.kind == RoleKind::Input || group.kind == RoleKind::Target;
  return !group.kind || isData == result.isDataAxis ? 1 : 2;
}

unsigned Candidates::Builder::levelOf(const OpNode &op) const {
  if (result.isDataAxis)
    return 1;
  for (unsigned use : op.operands)
    if (use != kNone)
      if (auto entry = graph.getAnnotation(graph.uses[use], axis.name);
          entry && !entry->isReplicate())
        return 1;
  return 2;
}

void Candidates::Builder::reach(Place place, Origin origin) {
  // What is made otherwise by annotation stays so; uses may take parts of it.
  const ValueNode &value = graph.values[place.value];
  std::optional<AxisPlacement> fixed = graph.getAnnotation(value, axis.name);
  if (fixed && !fixed->isShard(place.dim))
    return;
  if (result.reached.try_emplace({place.value, place.dim}, origin).second)
    queue.push_back(place);
}

/// Whether an op may work on shards that are no more than how something is stored. In the
/// microbatch, on a data axis, what costs communication in turn does not: the parameter is
/// gathered.
bool Candidates::Builder::mayFollowStorage(unsigned op, const AxisStrategy &strategy) const {
  return !result.isDataAxis || graph.ops[op].isOnce ||
         (!strategy.form &&
          llvm::none_of(strategy.results, [](AxisPlacement p) { return p.isPartial(); }));
}

void Candidates::Builder::visitOp(unsigned op, unsigned now, bool isResult, unsigned position,
                                  unsigned dim, unsigned value, unsigned annotatedUse) {
  if (level[op] && level[op] != now)
    return;
  for (auto [i, strategy] : llvm::enumerate(fitting[op])) {
    AxisPlacement at = isResult ? strategy.results[position] : strategy.operands[position];
    if (isReached[op][i] || !at.isShard(dim) || (now > 1 && !mayFollowStorage(op, strategy)))
      continue;
    isReached[op][i] = true;
    level[op] = now;
    Origin origin{value, dim, op, kNone, annotatedUse};
    for (auto [operand, placement] : llvm::enumerate(strategy.operands))
      if (placement.isShard() && graph.ops[op].operands[operand] != kNone)
        reach({graph.uses[graph.ops[op].operands[operand]].value,
               static_cast<unsigned>(placement.dim)},
              origin);
    for (auto [number, placement] : llvm::enumerate(strategy.results))
      if (placement.isShard() && graph.ops[op].results[number] != kNone)
        reach({graph.ops[op].results[number], static_cast<unsigned>(placement.dim)}, origin);
  }
}

void Candidates::Builder::visitGroup(unsigned group, unsigned dim, unsigned value) {
  GroupInfo &info = groups[group];
  std::optional<RoleKind> kind = graph.groups[group].kind;
  bool isData = kind == RoleKind::Input || kind == RoleKind::Target;
  bool stays = info.self ? !info.self->isShard(dim)
                         : kind == RoleKind::Constant || (isData && !result.isDataAxis);
  if (stays || llvm::is_contained(info.dims, dim))
    return;
  info.dims.push_back(dim);
  for (unsigned i : graph.groups[group].ports) {
    const Port &port = graph.ports[i];
    if (port.slot == Slot::State && result.states[i] && !result.states[i]->isShard(dim))
      continue;
    Origin origin;
    if (value != port.value)
      origin = {value, dim, kNone, group, kNone};
    reach({port.value, dim}, origin);
  }
}

/// The annotations of a level.
void Candidates::Builder::seed(unsigned now) {
  for (auto [number, group] : llvm::enumerate(graph.groups)) {
    const GroupInfo &info = groups[number];
    if (levelOf(group) != now)
      continue;
    if (info.self && info.self->isShard())
      visitGroup(number, info.self->dim, kNone);
    for (unsigned port : group.ports)
      if (result.states[port] && result.states[port]->isShard())
        reach({graph.ports[port].value, static_cast<unsigned>(result.states[port]->dim)}, {});
  }
  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    if (!(op.op->hasAttr(dist::kResultsAttr) || op.op->hasAttr(dist::kOperandsAttr)) ||
        levelOf(op) != now)
      continue;
    for (unsigned value : op.results)
      if (value != kNone)
        if (auto entry = graph.getAnnotation(graph.values[value], axis.name);
            entry && entry->isShard())
          reach({value, static_cast<unsigned>(entry->dim)}, {});
    for (auto [operand, use] : llvm::enumerate(op.operands))
      if (use != kNone)
        if (auto entry = graph.getAnnotation(graph.uses[use], axis.name); entry && entry->isShard())
          visitOp(number, now, false, operand, entry->dim, graph.uses[use].value, use);
  }
}

void Candidates::Builder::spread(unsigned now) {
  // What earlier levels have reached may go on through ops that they could not cut.
  for (const auto &[place, origin] : result.reached)
    queue.push_back({place.first, place.second});
  seed(now);
  while (!queue.empty()) {
    Place place = queue.back();
    queue.pop_back();
    const ValueNode &value = graph.values[place.value];
    if (value.op != kNone)
      visitOp(value.op, now, true, value.result, place.dim, place.value);
    else
      visitGroup(graph.ports[value.port].group, place.dim, place.value);
    for (unsigned number : value.uses) {
      const Use &use = graph.uses[number];
      if (use.op != kNone)
        visitOp(use.op, now, false, use.operand, place.dim, place.value);
      else
        visitGroup(graph.ports[use.port].group, place.dim, place.value);
    }
  }
}

void Candidates::Builder::reachEverything() {
  for (auto &reached : isReached)
    llvm::fill(reached, true);
  for (auto [number, group] : llvm::enumerate(graph.groups)) {
    GroupInfo &info = groups[number];
    if (info.self || group.kind == RoleKind::Constant)
      continue;
    RankedTensorType type = graph.values[graph.ports[group.ports.front()].value].type();
    for (unsigned dim = 0; dim < type.getRank(); ++dim)
      info.dims.push_back(dim);
  }
}

//===----------------------------------------------------------------------===//
// What is left to choose from
//===----------------------------------------------------------------------===//

/// Which values some candidate makes partial, by pending reduction (bits). Ops come after what
/// they use; saved values come from functions in front.
std::vector<char> Candidates::Builder::findPartials() const {
  std::vector<char> partial(graph.values.size(), 0);
  auto bit = [](AxisPlacement placement) {
    return static_cast<char>(1 << static_cast<unsigned>(placement.reduction));
  };
  for (auto [number, info] : llvm::enumerate(groups))
    for (unsigned i : graph.groups[number].ports) {
      const Port &port = graph.ports[i];
      bool mayBe = port.slot == Slot::Gradient ? !(info.self && info.self->isShard())
                   : port.slot == Slot::Self && info.self
                       ? info.self->isPartial()
                       : graph.groups[number].kind == RoleKind::Saved ||
                             graph.groups[number].kind == RoleKind::Crossing ||
                             graph.groups[number].kind == RoleKind::CrossingGradient;
      if (!port.isResult && mayBe)
        partial[port.value] |= bit(AxisPlacement::partial());
    }
  for (auto [number, op] : llvm::enumerate(graph.ops))
    for (unsigned i = 0; i < fitting[number].size(); ++i)
      if (isCandidate(number, i, partial))
        for (auto [result, placement] : llvm::enumerate(fitting[number][i].results))
          if (placement.isPartial() && op.results[result] != kNone)
            partial[op.results[result]] |= bit(placement);
  return partial;
}

bool Candidates::Builder::isCandidate(unsigned op, unsigned strategy,
                                      const std::vector<char> &mayBePartial) const {
  const AxisStrategy &candidate = fitting[op][strategy];
  if (isReached[op][strategy])
    return true;
  bool anyPartial = false;
  for (auto [operand, placement] : llvm::enumerate(candidate.operands)) {
    if (placement.isShard())
      return false;
    if (placement.isPartial() && graph.ops[op].operands[operand] != kNone)
      anyPartial |= mayBePartial[graph.uses[graph.ops[op].operands[operand]].value] &
                    (1 << static_cast<unsigned>(placement.reduction));
  }
  // Forms and draws may shard results of operands that are whole.
  if (llvm::any_of(candidate.results, [](AxisPlacement p) { return p.isShard(); }))
    return false;
  return anyPartial ||
         llvm::none_of(candidate.operands, [](AxisPlacement p) { return p.isPartial(); });
}

void Candidates::Builder::pass(const std::vector<char> &mayBePartial) {
  result.ops.resize(graph.ops.size());
  for (unsigned op = 0; op < graph.ops.size(); ++op) {
    for (unsigned i = 0; i < fitting[op].size(); ++i)
      if (isCandidate(op, i, mayBePartial))
        result.ops[op].push_back(fitting[op][i]);
    // An annotation may ask for what nothing else leads to.
    if (result.ops[op].empty())
      result.ops[op].assign(fitting[op].begin(), fitting[op].end());
  }
}

LogicalResult Candidates::Builder::chooseGroups() {
  Compatibility compatible(graph, axis, earlier);
  result.groups.resize(groups.size());
  for (auto [number, info] : llvm::enumerate(groups)) {
    const Group &group = graph.groups[number];
    SmallVector<AxisPlacement, 3> selves;
    if (info.self) {
      selves.push_back(*info.self);
    } else {
      selves.push_back(AxisPlacement::replicate());
      bool mayBePartial = group.kind == RoleKind::Loss || group.kind == RoleKind::Saved ||
                          group.kind == RoleKind::Crossing ||
                          group.kind == RoleKind::CrossingGradient;
      if (mayBePartial)
        selves.push_back(AxisPlacement::partial());
      for (unsigned dim : info.dims)
        selves.push_back(AxisPlacement::shard(dim));
    }
    for (AxisPlacement self : selves) {
      SmallVector<AxisPlacement, 2> gradients = {self};
      if (group.hasGradient && self.isReplicate())
        gradients = {AxisPlacement::partial(), AxisPlacement::replicate()};
      for (AxisPlacement gradient : gradients) {
        if (info.gradient && gradient != *info.gradient)
          continue;
        GroupChoice choice{self, gradient};
        if (llvm::all_of(group.ports, [&](unsigned port) {
              return compatible.fits(graph.values[graph.ports[port].value],
                                     result.getPort(port, choice));
            }))
          result.groups[number].push_back(choice);
      }
    }
    if (result.groups[number].empty()) {
      const Port &port = graph.ports[group.ports.front()];
      InFlightDiagnostic diagnostic = emitError(port.getLoc());
      return diagnostic << port.describe() << " cannot be placed on axis \"" << axis.name.getValue()
                        << "\" of " << axis.size
                        << " ranks as it is annotated: " << port.getAnnotation();
    }
  }
  return success();
}

LogicalResult Candidates::Builder::run(Reach reach) {
  result.graph = &graph;
  if (failed(readGroups()) || failed(readOps()))
    return failure();
  if (reach == Reach::Everything)
    reachEverything();
  else
    for (unsigned now = 1; now <= kLevels; ++now)
      spread(now);
  pass(findPartials());
  return chooseGroups();
}

FailureOr<Candidates> Candidates::collect(const Graph &graph, MeshAxis axis,
                                          ArrayRef<AxisSolution> earlier, Reach reach) {
  Builder builder(graph, axis, earlier);
  if (failed(builder.run(reach)))
    return failure();
  return std::move(builder.result);
}
