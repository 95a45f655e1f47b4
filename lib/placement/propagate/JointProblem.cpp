//===- JointProblem.cpp - placing a program on all axes at once --------------===//

#include "lib/placement/propagate/JointProblem.h"

#include "dialects/train/Train.h"

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

JointProblem::JointProblem(const Graph &graph, const JointChoices &choices, JointCosts &costs)
    : graph(graph), choices(choices), costs(costs), nodes(choices.getNumVariables()) {
  problem.limit = std::numeric_limits<int64_t>::max();
  auto addFree = [&](unsigned variable) {
    std::vector<int64_t> free(choices.getNumChoices(variable), 0);
    nodes[variable] = problem.addNode(0, 0, free, free);
  };
  for (unsigned group = 0; group < graph.groups.size(); ++group)
    addFree(graph.ops.size() + group);
  for (unsigned op = 0; op < graph.ops.size(); ++op)
    addOp(op);
  for (unsigned value = 0; value < graph.values.size(); ++value)
    addUses(value);
  problem.mergeEdges();
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
  nodes[op] = problem.addNode(0, 0, seconds, std::vector<int64_t>(seconds.size(), 0));
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

/// Whether it is a parameter, or made of nothing else: the backward gathers it again.
bool JointProblem::isOfParameter(const ValueNode &value) const {
  if (value.op == kNone) {
    train::RoleAttr role = graph.ports[value.port].role;
    return role && role.getKind() == train::RoleKind::Parameter;
  }
  const OpNode &op = graph.ops[value.op];
  return op.operands.size() == 1 && op.operands[0] != kNone &&
         isOfParameter(graph.values[graph.uses[op.operands[0]].value]);
}

void JointProblem::addUses(unsigned number) {
  const ValueNode &value = graph.values[number];
  bool isOfParameter = this->isOfParameter(value);
  SmallVector<unsigned, 4> uses, inBackward;
  for (unsigned use : value.uses) {
    const Use &user = graph.uses[use];
    Operation *op = user.op != kNone ? graph.ops[user.op].op : nullptr;
    // The accumulator of a step's first microbatch is empty: nothing that could be redistributed.
    if (auto accumulate = dyn_cast_or_null<train::AccumulateOp>(op);
        accumulate && user.operand == accumulate.getAccumulatorMutable().getOperandNumber())
      problem.addEdge(nodes[choices.producerOf(value)], nodes[choices.userOf(user)],
                      matrixOf(value.type(), lists(choices.lists[choices.made[number]]),
                               lists(choices.lists[choices.taken[use]]), value.weight, false));
    else if (isOfParameter && op && op->hasAttr(train::kBackwardAttrName))
      inBackward.push_back(use);
    else
      uses.push_back(use);
  }
  addUses(number, uses);
  addUses(number, inBackward);
}

/// Uses that may share a form of the value.
void JointProblem::addUses(unsigned number, ArrayRef<unsigned> uses) {
  if (uses.empty())
    return;
  const ValueNode &value = graph.values[number];
  unsigned producer = nodes[choices.producerOf(value)];
  unsigned made = lists(choices.lists[choices.made[number]]);
  auto addEdge = [&](unsigned from, unsigned list, unsigned use) {
    unsigned taken = lists(choices.lists[choices.taken[use]]);
    problem.addEdge(from, nodes[choices.userOf(graph.uses[use])],
                    matrixOf(value.type(), list, taken, value.weight));
  };
  if (uses.size() == 1) {
    addEdge(producer, made, uses.front());
    return;
  }
  unsigned forms = lists(formsOf(value, uses));
  std::vector<int64_t> free(lists[forms].size(), 0);
  unsigned shared = problem.addNode(0, 0, free, free);
  problem.addEdge(producer, shared, matrixOf(value.type(), made, forms, value.weight));
  for (unsigned use : uses)
    addEdge(shared, forms, use);
}
