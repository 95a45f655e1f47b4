//===- KernelInference.cpp - the placements inside a kernel -------------------===//

#include "lib/typing/KernelInference.h"
#include "lib/typing/Inference.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using dist::AxisEntry;
using dist::AxisPlacement;
using dist::PlacementAttr;

namespace {

/// Finds, on one axis, how the values of a body may be placed all together. An op relates its
/// operands and results in a few ways; ways that no neighbour agrees with are dropped until the
/// rest is consistent, then what is still open is decided value by value, each time the first way
/// that leaves the others one.
class AxisSearch {
public:
  using Ways = SmallVector<AxisPlacement, 2>;
  using Domains = llvm::DenseMap<Value, Ways>;
  struct Node {
    Operation *op;
    sharding::ShardingRule rule;
  };

  AxisSearch(ArrayRef<Node> nodes, Domains known, llvm::function_ref<bool(Value)> carriesGradient)
      : nodes(nodes), domains(std::move(known)), carriesGradient(carriesGradient) {}

  /// One placement for each value; none if no way was found.
  std::optional<llvm::DenseMap<Value, AxisPlacement>> run();

private:
  /// So many ways to combine the operands of one op are tried; of more, the first of each operand.
  static constexpr size_t kMaxCombinations = 256;

  std::optional<bool> narrow(const Node &node, Domains &domains) const;
  bool narrowAll(Domains &domains) const;

  ArrayRef<Node> nodes;
  Domains domains;
  llvm::function_ref<bool(Value)> carriesGradient;
};

} // namespace

/// Drops what the op cannot join or give. Whether anything was dropped or found; none if nothing
/// is left.
std::optional<bool> AxisSearch::narrow(const Node &node, Domains &domains) const {
  // A value that stands twice among the operands is one.
  llvm::SetVector<Value> operands;
  size_t combinations = 1;
  for (Value operand : node.op->getOperands())
    if (domains.contains(operand) && operands.insert(operand))
      combinations *= domains[operand].size();
  SmallVector<Ways> options;
  for (Value operand : operands) {
    options.push_back(domains[operand]);
    if (combinations > kMaxCombinations)
      options.back().truncate(1);
  }

  Domains left;
  auto keep = [&](Value value, AxisPlacement way) {
    Ways &ways = left[value];
    if (!llvm::is_contained(ways, way))
      ways.push_back(way);
  };
  auto isPossible = [&](Value result, AxisPlacement way) {
    auto known = domains.find(result);
    return known == domains.end() || llvm::is_contained(known->second, way);
  };
  SmallVector<size_t> at(operands.size(), 0);
  while (true) {
    SmallVector<AxisOperand, 4> taken;
    for (Value operand : node.op->getOperands()) {
      AxisOperand &entry = taken.emplace_back();
      if (auto *found = llvm::find(operands, operand); found != operands.end()) {
        size_t number = found - operands.begin();
        entry.placement = options[number][at[number]];
        entry.carriesGradient = entry.placement->isInvariant() && carriesGradient(operand);
      }
    }
    AxisResult result = inferAxis(node.rule, taken);
    if (auto *choices = std::get_if<0>(&result))
      for (const AxisChoice &choice : *choices) {
        if (!llvm::all_of_zip(node.op->getResults(), choice.results, isPossible))
          continue;
        for (auto [number, operand] : llvm::enumerate(operands))
          keep(operand, options[number][at[number]]);
        for (auto [value, way] : llvm::zip_equal(node.op->getResults(), choice.results))
          keep(value, way);
      }
    // The next combination.
    size_t digit = 0;
    while (digit < at.size() && ++at[digit] == options[digit].size())
      at[digit++] = 0;
    if (digit == at.size())
      break;
  }
  if (left.empty())
    return std::nullopt;
  bool changed = false;
  for (auto &[value, ways] : left) {
    auto [known, isNew] = domains.try_emplace(value, ways);
    changed |= isNew || known->second.size() != ways.size();
    known->second = ways;
  }
  return changed;
}

bool AxisSearch::narrowAll(Domains &domains) const {
  for (bool changed = true; changed;) {
    changed = false;
    auto visit = [&](const Node &node) {
      std::optional<bool> its = narrow(node, domains);
      changed |= its.value_or(false);
      return its.has_value();
    };
    if (!llvm::all_of(nodes, visit) || !llvm::all_of(llvm::reverse(nodes), visit))
      return false;
  }
  return true;
}

std::optional<llvm::DenseMap<Value, AxisPlacement>> AxisSearch::run() {
  if (!narrowAll(domains))
    return std::nullopt;
  llvm::DenseMap<Value, AxisPlacement> chosen;
  for (const Node &node : nodes)
    for (Value result : node.op->getResults()) {
      bool isDecided = domains[result].size() == 1;
      for (AxisPlacement way : Ways(domains[result])) {
        if (isDecided)
          break;
        Domains tried = domains;
        tried[result] = {way};
        isDecided = narrowAll(tried);
        if (isDecided)
          domains = std::move(tried);
      }
      if (!isDecided)
        return std::nullopt;
      chosen[result] = domains[result].front();
    }
  return chosen;
}

//===----------------------------------------------------------------------===//
// All axes
//===----------------------------------------------------------------------===//

namespace {

class KernelInference {
public:
  KernelInference(exec::LaunchOp launch, exec::KernelOp kernel, PlacementAttr frame,
                  llvm::function_ref<bool(Value)> carriesGradient)
      : body(kernel.getBody().front()), frame(frame), carriesGradient(carriesGradient) {
    for (auto [argument, operand] : llvm::zip_equal(kernel.getArguments(), launch.getOperands()))
      given[argument] = dist::getPlacement(operand.getType());
    for (auto [returned, result] :
         llvm::zip_equal(body.getTerminator()->getOperands(), launch.getResults()))
      declared[returned] = dist::getPlacement(result.getType());
  }

  KernelPlacements run() const;

private:
  using Placements = llvm::DenseMap<Value, PlacementAttr>;

  KernelPlacements type(const Placements &preferred) const;
  bool isAsDeclared(const KernelPlacements &found) const;
  std::optional<Placements> search() const;

  Block &body;
  PlacementAttr frame;
  llvm::function_ref<bool(Value)> carriesGradient;
  Placements given, declared;
};

} // namespace

/// Types op after op; where the rules leave a choice, as `preferred` has it.
KernelPlacements KernelInference::type(const Placements &preferred) const {
  KernelPlacements found{given};
  for (Operation &op : body.without_terminator()) {
    auto operands = llvm::map_to_vector(op.getOperands(),
                                        [&](Value value) { return found.values.lookup(value); });
    auto wanted =
        llvm::map_to_vector(op.getResults(), [&](Value value) { return preferred.lookup(value); });
    FailureOr<SmallVector<PlacementAttr>> inferred =
        inferPlacements(&op, {.carriesGradient = carriesGradient,
                              .preferred = wanted,
                              .operands = operands,
                              .like = frame,
                              .quiet = true});
    if (failed(inferred)) {
      found.conflict = &op;
      return found;
    }
    for (auto [result, placement] : llvm::zip_equal(op.getResults(), *inferred))
      found.values[result] = placement;
  }
  return found;
}

bool KernelInference::isAsDeclared(const KernelPlacements &found) const {
  return !found.conflict && llvm::all_of(declared, [&](const auto &entry) {
    PlacementAttr its = found.values.lookup(entry.first);
    return !its || its == entry.second;
  });
}

/// How all values may be placed together, the orders of shards left out of account.
std::optional<KernelInference::Placements> KernelInference::search() const {
  std::vector<AxisSearch::Node> nodes;
  for (Operation &op : body.without_terminator())
    nodes.push_back({&op, sharding::getShardingRule(&op)});
  llvm::DenseMap<Value, SmallVector<AxisEntry>> entries;
  for (const AxisEntry &axis : frame.getEntries()) {
    AxisSearch::Domains known;
    for (const Placements *placements : {&given, &declared})
      for (auto [value, placement] : *placements)
        if (placement) {
          AxisPlacement way = *placement.get(axis.axis);
          way.order = 0;
          known[value] = {way};
        }
    auto chosen = AxisSearch(nodes, std::move(known), carriesGradient).run();
    if (!chosen)
      return std::nullopt;
    for (auto [value, way] : *chosen) {
      SmallVector<AxisEntry> &its = entries[value];
      if (way.isShard())
        way.order = llvm::count_if(
            its, [&](const AxisEntry &other) { return other.placement.isShard(way.dim); });
      AxisEntry &entry = its.emplace_back(axis);
      entry.placement = way;
    }
  }
  Placements found;
  for (auto &[value, its] : entries)
    if (isa<RankedTensorType>(value.getType()))
      found[value] = PlacementAttr::get(frame.getMesh(), its);
  return found;
}

KernelPlacements KernelInference::run() const {
  KernelPlacements first = type(declared);
  if (!frame || isAsDeclared(first))
    return first;
  if (std::optional<Placements> preferred = search())
    if (KernelPlacements found = type(*preferred); isAsDeclared(found))
      return found;
  return first;
}

KernelPlacements cleave::placement::inferKernel(exec::LaunchOp launch, exec::KernelOp kernel,
                                                PlacementAttr frame,
                                                llvm::function_ref<bool(Value)> carriesGradient) {
  return KernelInference(launch, kernel, frame, carriesGradient).run();
}
