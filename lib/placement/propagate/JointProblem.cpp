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
      lifetimes(graph, countsMemory), nodes(choices.getNumVariables()) {
  problem.limit = memory.value_or(std::numeric_limits<int64_t>::max());
  for (unsigned group = 0; group < graph.groups.size(); ++group)
    addGroup(group);
  for (unsigned op = 0; op < graph.ops.size(); ++op)
    addOp(op);
  for (unsigned value = 0; value < graph.values.size(); ++value) {
    for (unsigned use : lifetimes.fixed[value])
      addFixed(value, use);
    for (const SharedUses &uses : lifetimes.shared[value])
      addUses(value, uses);
  }
  problem.mergeEdges();
}

int64_t JointProblem::bytesOf(unsigned value, unsigned placement) const {
  return std::llround(
      costs.bytesOnRank(graph.values[value].type(), choices.getPlacement(placement)));
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
    const std::vector<unsigned> &list = choices.lists[choices.made[port.value]];
    for (auto [sum, placement] : llvm::zip_equal(bytes, list))
      sum += bytesOf(port.value, placement);
  }
  nodes[variable] = problem.addNode(0, graph.ops.size() + 1, free, bytes);
}

void JointProblem::addOp(unsigned op) {
  std::vector<int64_t> seconds;
  const OpClass &shared = choices.classes[choices.classOf[op]];
  unsigned axes = choices.candidates.size();
  for (unsigned choice = 0; choice < shared.choices.size(); ++choice) {
    SmallVector<const AxisStrategy *, 2> strategies;
    for (unsigned axis = 0; axis < axes; ++axis)
      strategies.push_back(&choices.getStrategy(op, choice, axis));
    seconds.push_back(toUnits(graph.ops[op].weight * costs.work(graph.ops[op].op, strategies)));
  }
  std::vector<int64_t> bytes(seconds.size(), 0);
  int64_t end = op + 1;
  for (unsigned value : graph.ops[op].results) {
    if (value == kNone || !countsMemory || !lifetimes.hasMemory[value])
      continue;
    end = std::max(end, lifetimes.end[value]);
    for (auto [sum, placement] : llvm::zip_equal(bytes, choices.lists[choices.made[value]]))
      sum += bytesOf(value, placement);
  }
  nodes[op] = problem.addNode(op, end, seconds, bytes);
}

solve::Assignment JointProblem::convert(const JointProblem &other,
                                        ArrayRef<unsigned> assignment) const {
  solve::Assignment result(problem.getNodes().size(), 0);
  std::vector<char> isForm(result.size(), true);
  for (unsigned variable = 0; variable < nodes.size(); ++variable) {
    result[nodes[variable]] = other.getChoice(assignment, variable);
    isForm[nodes[variable]] = false;
  }
  // Forms have no edges among each other.
  std::vector<std::vector<solve::Cost>> sums(result.size());
  for (size_t node = 0; node < result.size(); ++node)
    if (isForm[node])
      sums[node].assign(problem.getNodes()[node].size, 0);
  for (const solve::Edge &edge : problem.getEdges()) {
    const solve::Matrix &matrix = problem.getMatrices()[edge.matrix];
    auto add = [&](unsigned node, size_t first, size_t step) {
      for (auto [choice, sum] : llvm::enumerate(sums[node]))
        sum += matrix.costs[first + choice * step];
    };
    if (isForm[edge.first])
      add(edge.first, result[edge.second], matrix.columns);
    else if (isForm[edge.second])
      add(edge.second, size_t(result[edge.first]) * matrix.columns, 1);
  }
  for (size_t node = 0; node < result.size(); ++node)
    for (unsigned choice = 1; choice < sums[node].size(); ++choice)
      if (std::pair(sums[node][choice], problem.getUsages(node)[choice]) <
          std::pair(sums[node][result[node]], problem.getUsages(node)[result[node]]))
        result[node] = choice;
  return result;
}

/// A matrix over two lists of placements; where they may not differ, other pairs are forbidden.
unsigned JointProblem::matrixOf(RankedTensorType type, unsigned from, unsigned to, double weight,
                                bool mayDiffer) {
  auto [it, isNew] = matrices.try_emplace({type.getAsOpaquePointer(), from, to, weight, mayDiffer});
  if (!isNew)
    return it->second;
  solve::Matrix matrix{
      static_cast<unsigned>(lists[from].size()), static_cast<unsigned>(lists[to].size()), {}};
  for (unsigned a : lists[from])
    for (unsigned b : lists[to]) {
      if (a == b || !mayDiffer) {
        matrix.costs.push_back(a == b ? 0 : solve::forbidden);
        continue;
      }
      auto [cost, isUnknown] = known.try_emplace({type.getAsOpaquePointer(), a, b});
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

/// All placements in which the value is made or taken.
std::vector<unsigned> JointProblem::formsOf(const ValueNode &value, ArrayRef<unsigned> uses) const {
  std::vector<unsigned> forms = choices.lists[choices.made[&value - graph.values.data()]];
  for (unsigned use : uses)
    llvm::append_range(forms, choices.lists[choices.taken[use]]);
  llvm::sort(forms);
  forms.erase(llvm::unique(forms), forms.end());
  return forms;
}

void JointProblem::addFixed(unsigned number, unsigned use) {
  const ValueNode &value = graph.values[number];
  problem.addEdge(nodes[choices.producerOf(value)], nodes[choices.userOf(graph.uses[use])],
                  matrixOf(value.type(), lists(choices.lists[choices.made[number]]),
                           lists(choices.lists[choices.taken[use]]), value.weight, false));
}

void JointProblem::addUses(unsigned number, const SharedUses &uses) {
  const ValueNode &value = graph.values[number];
  unsigned producer = nodes[choices.producerOf(value)];
  unsigned made = lists(choices.lists[choices.made[number]]);
  auto addEdge = [&](unsigned from, unsigned list, unsigned use) {
    unsigned taken = lists(choices.lists[choices.taken[use]]);
    problem.addEdge(from, nodes[choices.userOf(graph.uses[use])],
                    matrixOf(value.type(), list, taken, value.weight));
  };
  if (!uses.isShared) {
    addEdge(producer, made, uses.uses.front());
    return;
  }
  unsigned forms = lists(formsOf(value, uses.uses));
  std::vector<int64_t> free(lists[forms].size(), 0), bytes = free;
  if (countsMemory)
    for (auto [count, placement] : llvm::zip_equal(bytes, lists[forms]))
      count = bytesOf(number, placement);
  unsigned shared = problem.addNode(uses.start, uses.end, free, bytes);
  problem.addEdge(producer, shared, matrixOf(value.type(), made, forms, value.weight));
  for (unsigned use : uses.uses)
    addEdge(shared, forms, use);
}
