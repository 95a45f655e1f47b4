//===- JointProblem.cpp - placing a program on all axes at once --------------===//

#include "lib/placement/propagate/JointProblem.h"

#include "llvm/ADT/DenseSet.h"

#include <cmath>

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;

/// Not even the largest programs reach a part of it; sums stay far below 2^63.
static constexpr double kMostUnits = 1e17;

int64_t JointProblem::toUnits(double seconds) {
  return std::llround(std::min(seconds / secondsPerUnit, kMostUnits));
}

JointProblem::JointProblem(const Graph &graph, const JointChoices &choices, JointCosts &costs,
                           std::optional<int64_t> memory)
    : graph(graph), choices(choices), costs(costs), countsMemory(memory.has_value()),
      lifetimes(graph, countsMemory), nodes(choices.getNumVariables()),
      numbers(choices.lists.size(), kNone) {
  problem.limit = memory.value_or(std::numeric_limits<int64_t>::max());
  addNodes();
  for (unsigned value = 0; value < graph.values.size(); ++value) {
    for (unsigned use : lifetimes.fixed[value])
      addFixed(value, use);
    for (auto [uses, form] : llvm::zip_equal(lifetimes.shared[value], forms[value]))
      addUses(value, uses, form);
  }
  problem.mergeEdges();
}

/// The solver's messages go from node to node in rising order, and so does what is read off them:
/// that is the order of the program, in which groups and the forms of arguments come before their
/// first use, and the forms of results behind their op.
void JointProblem::addNodes() {
  unsigned ops = graph.ops.size();
  auto findFirst = [&](const ValueNode &value) {
    unsigned first = std::min(ops, value.op);
    for (unsigned use : value.uses)
      first = std::min(first, graph.uses[use].op);
    return first;
  };
  std::vector<SmallVector<unsigned, 1>> groups(ops + 1), arguments(ops + 1);
  for (auto [number, group] : llvm::enumerate(graph.groups)) {
    unsigned first = ops;
    for (unsigned port : group.ports)
      first = std::min(first, findFirst(graph.values[graph.ports[port].value]));
    groups[first].push_back(number);
  }
  for (auto [number, value] : llvm::enumerate(graph.values)) {
    forms.emplace_back(lifetimes.shared[number].size(), kNone);
    if (value.op == kNone)
      arguments[findFirst(value)].push_back(number);
  }
  for (unsigned op = 0; op <= ops; ++op) {
    for (unsigned group : groups[op])
      addGroup(group);
    for (unsigned value : arguments[op])
      addForms(value);
    if (op == ops)
      break;
    addOp(op);
    for (unsigned value : graph.ops[op].results)
      if (value != kNone)
        addForms(value);
  }
}

void JointProblem::addBytes(unsigned value, const std::vector<unsigned> &list,
                            std::vector<int64_t> &sums) {
  RankedTensorType type = graph.values[value].type();
  auto [it, isNew] = bytes.try_emplace({type.getAsOpaquePointer(), &list});
  if (isNew)
    for (unsigned placement : list)
      it->second.push_back(std::llround(costs.bytesOnRank(type, choices.getPlacement(placement))));
  for (auto [sum, part] : llvm::zip_equal(sums, it->second))
    sum += part;
}

/// What arguments hold, they hold all the time; those of one name in several functions once.
void JointProblem::addGroup(unsigned number) {
  unsigned variable = graph.ops.size() + number;
  std::vector<int64_t> free(choices.getNumChoices(variable), 0), bytes = free;
  llvm::SmallDenseSet<std::pair<Attribute, unsigned>> counted;
  for (unsigned i : graph.groups[number].ports) {
    const Port &port = graph.ports[i];
    // A gradient is summed up where its accumulator is.
    bool isGradient = port.slot == Slot::Gradient;
    Attribute key = isGradient ? Attribute() : Attribute(port.role);
    if (port.isResult || !countsMemory || !counted.insert({key, unsigned(isGradient)}).second)
      continue;
    addBytes(port.value, choices.lists[choices.made[port.value]], bytes);
  }
  nodes[variable] = problem.addNode(0, graph.ops.size() + 1, free, bytes);
}

/// By choice.
const std::vector<int64_t> &JointProblem::secondsOf(unsigned op) {
  auto [it, isNew] = workOf.try_emplace({choices.classOf[op], graph.ops[op].weight});
  if (!isNew)
    return it->second;
  SmallVector<const AxisStrategy *, 2> strategies;
  for (unsigned choice = 0; choice < choices.getNumChoices(op); ++choice) {
    strategies.clear();
    for (unsigned axis = 0; axis < choices.candidates.size(); ++axis)
      strategies.push_back(&choices.getStrategy(op, choice, axis));
    it->second.push_back(toUnits(graph.ops[op].weight * costs.work(graph.ops[op].op, strategies)));
  }
  return it->second;
}

void JointProblem::addOp(unsigned op) {
  const std::vector<int64_t> &seconds = secondsOf(op);
  std::vector<int64_t> bytes(seconds.size(), 0);
  int64_t end = op + 1;
  for (unsigned value : graph.ops[op].results) {
    if (value == kNone || !countsMemory || !lifetimes.hasMemory[value])
      continue;
    end = std::max(end, lifetimes.end[value]);
    addBytes(value, choices.lists[choices.made[value]], bytes);
  }
  nodes[op] = problem.addNode(op, end, seconds, bytes);
}

/// A matrix over two lists of placements; where they may not differ, other pairs are forbidden.
unsigned JointProblem::matrixOf(RankedTensorType type, unsigned from, unsigned to, double weight,
                                bool mayDiffer) {
  auto [it, isNew] = matrices.try_emplace({type.getAsOpaquePointer(), from, to, weight, mayDiffer});
  if (!isNew)
    return it->second;
  auto &costOfPair = known[type];
  solve::Matrix matrix{
      static_cast<unsigned>(lists[from].size()), static_cast<unsigned>(lists[to].size()), {}};
  for (unsigned a : lists[from])
    for (unsigned b : lists[to]) {
      if (a == b || !mayDiffer) {
        matrix.costs.push_back(a == b ? 0 : solve::forbidden);
        continue;
      }
      auto [cost, isUnknown] = costOfPair.try_emplace({a, b});
      if (isUnknown) {
        std::optional<double> seconds =
            costs.redistribute(type, choices.getPlacement(a), choices.getPlacement(b));
        cost->second = seconds ? toUnits(*seconds) : solve::forbidden;
      }
      matrix.costs.push_back(
          cost->second == solve::forbidden
              ? solve::forbidden
              : static_cast<int64_t>(static_cast<double>(cost->second) * weight));
    }
  return it->second = problem.addMatrix(std::move(matrix));
}

unsigned JointProblem::numberOf(unsigned list) {
  unsigned &number = numbers[list];
  if (number == kNone)
    number = lists(choices.lists[list]);
  return number;
}

/// All placements in which the value is made or taken.
unsigned JointProblem::formsOf(unsigned value, ArrayRef<unsigned> uses) {
  std::vector<unsigned> parts{made(value)};
  for (unsigned use : uses)
    parts.push_back(taken(use));
  auto [it, isNew] = formNumbers.try_emplace(parts);
  if (isNew) {
    std::vector<unsigned> forms;
    for (unsigned part : parts)
      llvm::append_range(forms, lists[part]);
    llvm::sort(forms);
    forms.erase(llvm::unique(forms), forms.end());
    it->second = lists(forms);
  }
  return it->second;
}

void JointProblem::addFixed(unsigned number, unsigned use) {
  const ValueNode &value = graph.values[number];
  problem.addEdge(nodes[choices.producerOf(value)], nodes[choices.userOf(graph.uses[use])],
                  matrixOf(value.type(), made(number), taken(use), value.weight, false));
}

/// A node for each form of the value that several uses go on from.
void JointProblem::addForms(unsigned number) {
  for (auto [uses, form] : llvm::zip_equal(lifetimes.shared[number], forms[number])) {
    if (!uses.isShared)
      continue;
    const std::vector<unsigned> &list = lists[formsOf(number, uses.uses)];
    std::vector<int64_t> free(list.size(), 0), bytes = free;
    if (countsMemory)
      addBytes(number, list, bytes);
    form = problem.addNode(uses.start, uses.end, free, bytes);
  }
}

/// `form`: the node of the form that the uses share, if they do.
void JointProblem::addUses(unsigned number, const SharedUses &uses, unsigned form) {
  const ValueNode &value = graph.values[number];
  unsigned from = nodes[choices.producerOf(value)];
  unsigned list = made(number);
  if (uses.isShared) {
    unsigned shared = formsOf(number, uses.uses);
    problem.addEdge(from, form, matrixOf(value.type(), list, shared, value.weight));
    from = form;
    list = shared;
  }
  // The form of a single use is what that takes: no third one is made on the way.
  bool mayDiffer = !uses.isShared || uses.uses.size() > 1;
  for (unsigned use : uses.uses)
    problem.addEdge(from, nodes[choices.userOf(graph.uses[use])],
                    matrixOf(value.type(), list, taken(use), value.weight, mayDiffer));
}

//===----------------------------------------------------------------------===//
// What is placed
//===----------------------------------------------------------------------===//

static unsigned indexOf(ArrayRef<unsigned> list, unsigned placement) {
  return llvm::lower_bound(list, placement) - list.begin();
}

std::optional<int64_t> JointProblem::costOf(unsigned number, const SharedUses &uses,
                                            ArrayRef<unsigned> assignment, unsigned placement) {
  const ValueNode &value = graph.values[number];
  unsigned shared = formsOf(number, uses.uses);
  unsigned form = indexOf(lists[shared], placement);
  int64_t sum = 0;
  auto add = [&](unsigned matrix, unsigned row, unsigned column) {
    const solve::Matrix &found = problem.getMatrices()[matrix];
    int64_t cost = found.costs[size_t(row) * found.columns + column];
    sum = cost == solve::forbidden || sum == solve::forbidden ? solve::forbidden : sum + cost;
  };
  add(matrixOf(value.type(), made(number), shared, value.weight),
      getChoice(assignment, choices.producerOf(value)), form);
  for (unsigned use : uses.uses)
    add(matrixOf(value.type(), shared, taken(use), value.weight), form,
        getChoice(assignment, choices.userOf(graph.uses[use])));
  return sum == solve::forbidden ? std::nullopt : std::optional(sum);
}

solve::Assignment JointProblem::settleForms(solve::Assignment assignment) {
  solve::Assignment settled = assignment;
  for (unsigned number = 0; number < graph.values.size(); ++number)
    for (auto [uses, form] : llvm::zip_equal(lifetimes.shared[number], forms[number])) {
      if (uses.uses.size() < 2)
        continue;
      const ValueNode &value = graph.values[number];
      SmallVector<unsigned, 4> placements = {
          choices.lists[choices.made[number]][getChoice(assignment, choices.producerOf(value))]};
      for (unsigned use : uses.uses)
        placements.push_back(choices.lists[choices.taken[use]]
                                          [getChoice(assignment, choices.userOf(graph.uses[use]))]);
      const std::vector<unsigned> &list = lists[formsOf(number, uses.uses)];
      unsigned present = list[assignment[form]];
      if (llvm::is_contained(placements, present))
        continue;
      std::optional<std::pair<int64_t, unsigned>> best;
      for (unsigned placement : placements)
        if (std::optional<int64_t> cost = costOf(number, uses, assignment, placement))
          if (!best || *cost < best->first)
            best = {*cost, placement};
      if (best)
        settled[form] = indexOf(list, best->second);
    }
  return problem.isFeasible(settled) ? settled : assignment;
}
