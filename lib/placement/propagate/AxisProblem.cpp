//===- AxisProblem.cpp - placing a program along one axis, as costs ----------===//

#include "lib/placement/propagate/AxisProblem.h"
#include "lib/aten/OpCost.h"

#include "dialects/train/Train.h"

#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace cleave;
using namespace cleave::placement;
using namespace cleave::placement::propagate;
using dist::AxisPlacement;

/// Tables of more entries are not built: each use is then paid for by itself.
static constexpr size_t kMaxTable = 1 << 12;

//===----------------------------------------------------------------------===//
// Sizes, as earlier axes leave them
//===----------------------------------------------------------------------===//

/// If an op could be divided, work that all ranks repeat counts in full. Work on terms of a sum is
/// not a repetition, only more of it than on parts: where `work` makes repetition expensive, what
/// it really takes is the time of a memory so many times as fast as the link.
static double weighTerms(const MachineModel &machine) {
  constexpr double kMemoryToLink = 32;
  return machine.cluster ? 1 : 1 / (kMemoryToLink * std::max(machine.work, 1.0));
}

AxisProblem::AxisProblem(const Graph &graph, const Candidates &candidates, ArrayRef<MeshAxis> axes,
                         const MachineModel &machine, ArrayRef<AxisSolution> earlier)
    : graph(graph), candidates(candidates), axis(axes[earlier.size()]),
      cluster(machine.describe(axes)), termsWeight(weighTerms(machine)), earlier(earlier),
      costs(cluster, getGroups(axes)[earlier.size()]) {
  for (const auto &choices : candidates.ops)
    problem.addVariable(choices.size());
  for (const auto &choices : candidates.groups)
    problem.addVariable(choices.size());
  valuesOf.resize(problem.getNumVariables());

  useBytes.resize(graph.uses.size());
  useKeys.resize(graph.uses.size());
  for (const ValueNode &value : graph.values) {
    SmallVector<SmallVector<AxisPlacement, 2>, 2> ways;
    for (unsigned number : value.uses) {
      SmallVector<AxisPlacement, 2> way;
      double bytes = value.bytes;
      for (const AxisSolution &solution : earlier) {
        AxisPlacement made = solution.made[&value - graph.values.data()];
        way.push_back(solution.taken[number]);
        if (made.isShard() && way.back() == made)
          bytes /= static_cast<double>(solution.axis.size);
      }
      useBytes[number] = bytes;
      auto known = llvm::find(ways, way);
      useKeys[number] = known - ways.begin();
      if (known == ways.end())
        ways.push_back(way);
    }
  }

  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    double seconds = cost::timeOf(cluster, aten::describeWork(op.op), {});
    for (const AxisSolution &solution : earlier)
      if (llvm::any_of(solution.strategies[number].operands,
                       [](AxisPlacement p) { return p.isShard(); }))
        seconds /= static_cast<double>(solution.axis.size);
    work.push_back(op.weight * seconds);
    std::vector<double> table;
    for (const AxisStrategy &strategy : candidates.ops[number])
      table.push_back(getWork(number, strategy));
    problem.addTable({static_cast<unsigned>(number)}, std::move(table));
  }
  for (auto [number, choices] : llvm::enumerate(candidates.groups)) {
    std::vector<double> table;
    for (const GroupChoice &choice : choices)
      table.push_back(getGroupCost(number, choice));
    problem.addTable({static_cast<unsigned>(graph.ops.size() + number)}, std::move(table));
  }
  for (unsigned value = 0; value < graph.values.size(); ++value)
    addValue(value);
}

//===----------------------------------------------------------------------===//
// Variables
//===----------------------------------------------------------------------===//

unsigned AxisProblem::producerOf(const ValueNode &value) const {
  return value.op != kNone ? value.op : graph.ops.size() + graph.ports[value.port].group;
}

unsigned AxisProblem::userOf(const Use &use) const {
  return use.op != kNone ? use.op : graph.ops.size() + graph.ports[use.port].group;
}

AxisPlacement AxisProblem::getMade(const ValueNode &value, unsigned choice) const {
  if (value.op != kNone)
    return candidates.ops[value.op][choice].results[value.result];
  return candidates.getPort(value.port, candidates.groups[graph.ports[value.port].group][choice]);
}

AxisPlacement AxisProblem::getTaken(const Use &use, unsigned choice) const {
  if (use.op != kNone)
    return candidates.ops[use.op][choice].operands[use.operand];
  return candidates.getPort(use.port, candidates.groups[graph.ports[use.port].group][choice]);
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static bool isDivided(const AxisStrategy &strategy) {
  auto isShard = [](AxisPlacement p) { return p.isShard(); };
  return llvm::any_of(strategy.operands, isShard) || llvm::any_of(strategy.results, isShard);
}

double AxisProblem::getWork(unsigned op, const AxisStrategy &strategy) const {
  double part = work[op] / static_cast<double>(axis.size);
  bool isPartial = llvm::any_of(strategy.operands, [](AxisPlacement p) { return p.isPartial(); });
  double seconds = work[op];
  if (isDivided(strategy))
    seconds = part;
  else if (isPartial && llvm::any_of(candidates.ops[op], isDivided))
    seconds = part + (work[op] - part) * termsWeight;
  if (strategy.bytes)
    seconds += graph.ops[op].weight * costs.send(static_cast<double>(strategy.bytes));
  // What can be reduced here as well as later is reduced here.
  if (isPartial)
    seconds += kTieBreak / 4;
  return seconds;
}

double AxisProblem::getGroupCost(unsigned group, const GroupChoice &choice) const {
  // What may be held in parts is.
  bool canShard = llvm::any_of(candidates.groups[group],
                               [](const GroupChoice &other) { return other.self.isShard(); });
  double seconds = canShard && !choice.self.isShard() ? kTieBreak : 0;
  // Among equal choices, prefer to leave a gradient's sum to the update.
  if (graph.groups[group].hasGradient && choice.gradient.isReplicate())
    seconds += 8 * kTieBreak;
  return seconds;
}

/// The accumulator of a step's first microbatch is empty: nothing that could be redistributed. What
/// is no choice costs more than any program does.
double AxisProblem::getRedistribution(const Use &use, AxisPlacement made, AxisPlacement taken,
                                      double bytes) const {
  constexpr double kImpossible = 1e9;
  auto accumulate =
      use.op != kNone ? dyn_cast<train::AccumulateOp>(graph.ops[use.op].op) : train::AccumulateOp();
  if (accumulate && made != taken &&
      use.operand == accumulate.getAccumulatorMutable().getOperandNumber())
    return kImpossible;
  return costs.redistribute(made, taken, bytes);
}

double AxisProblem::costOfValue(unsigned number,
                                llvm::function_ref<unsigned(unsigned)> choiceOf) const {
  const ValueNode &value = graph.values[number];
  AxisPlacement made = getMade(value, choiceOf(producerOf(value)));
  SmallVector<std::pair<unsigned, AxisPlacement>, 4> paid;
  double seconds = 0;
  for (unsigned i : value.uses) {
    const Use &use = graph.uses[i];
    AxisPlacement taken = getTaken(use, choiceOf(userOf(use)));
    if (taken == made || llvm::is_contained(paid, std::pair(useKeys[i], taken)))
      continue;
    paid.push_back({useKeys[i], taken});
    seconds += getRedistribution(use, made, taken, useBytes[i]);
  }
  return seconds * value.weight;
}

/// A table over the producer and those users whose choice makes a difference.
void AxisProblem::addValue(unsigned number) {
  const ValueNode &value = graph.values[number];
  unsigned producer = producerOf(value);
  SmallVector<unsigned, 8> variables;
  auto add = [&](unsigned variable) {
    if (problem.getNumChoices(variable) > 1 && !llvm::is_contained(variables, variable))
      variables.push_back(variable);
  };
  auto varies = [&](unsigned variable, auto placementOf) {
    for (unsigned choice = 1; choice < problem.getNumChoices(variable); ++choice)
      if (placementOf(choice) != placementOf(0))
        return true;
    return false;
  };
  if (varies(producer, [&](unsigned choice) { return getMade(value, choice); }))
    add(producer);
  valuesOf[producer].push_back(number);
  for (unsigned i : value.uses) {
    const Use &use = graph.uses[i];
    unsigned user = userOf(use);
    if (!llvm::is_contained(valuesOf[user], number))
      valuesOf[user].push_back(number);
    if (varies(user, [&](unsigned choice) { return getTaken(use, choice); }))
      add(user);
  }
  llvm::sort(variables);
  // With hundreds of uses the product would overflow.
  size_t size = 1;
  for (unsigned variable : variables)
    if (size <= kMaxTable)
      size *= problem.getNumChoices(variable);

  if (size <= kMaxTable) {
    std::vector<double> table(size);
    SmallVector<unsigned, 8> choices(variables.size(), 0);
    auto choiceOf = [&](unsigned variable) -> unsigned {
      auto it = llvm::lower_bound(variables, variable);
      return it != variables.end() && *it == variable ? choices[it - variables.begin()] : 0;
    };
    for (double &entry : table) {
      entry = costOfValue(number, choiceOf);
      for (size_t digit = variables.size(); digit-- > 0;) {
        if (++choices[digit] < problem.getNumChoices(variables[digit]))
          break;
        choices[digit] = 0;
      }
    }
    problem.addTable(variables, std::move(table));
    return;
  }
  // Too many uses for one table. Each is paid for as if it were the only one; the uses of one
  // placement share it, so this is what they cost at most.
  for (unsigned i : value.uses) {
    const Use &use = graph.uses[i];
    unsigned user = userOf(use);
    bool isSwapped = user < producer;
    std::vector<double> table;
    auto entry = [&](unsigned made, unsigned taken) {
      return value.weight *
             getRedistribution(use, getMade(value, made), getTaken(use, taken), useBytes[i]);
    };
    if (user == producer) {
      for (unsigned a = 0; a < problem.getNumChoices(user); ++a)
        table.push_back(entry(a, a));
      problem.addTable({user}, std::move(table));
      continue;
    }
    for (unsigned a = 0; a < problem.getNumChoices(isSwapped ? user : producer); ++a)
      for (unsigned b = 0; b < problem.getNumChoices(isSwapped ? producer : user); ++b)
        table.push_back(isSwapped ? entry(b, a) : entry(a, b));
    problem.addTable({std::min(user, producer), std::max(user, producer)}, std::move(table));
  }
}

double AxisProblem::costOfVariable(unsigned variable, unsigned choice) const {
  auto choiceOf = [&](unsigned other) {
    return other == variable ? choice : solution.assignment[other];
  };
  double seconds = 0;
  for (unsigned value : valuesOf[variable])
    seconds += costOfValue(value, choiceOf);
  return seconds;
}

double AxisProblem::costOf(unsigned op, unsigned candidate) const {
  return getWork(op, candidates.ops[op][candidate]) + costOfVariable(op, candidate);
}

double AxisProblem::costOfGroup(unsigned group, unsigned choice) const {
  return getGroupCost(group, candidates.groups[group][choice]) +
         costOfVariable(graph.ops.size() + group, choice);
}

//===----------------------------------------------------------------------===//
// Solving
//===----------------------------------------------------------------------===//

/// Each op in its order takes what is cheapest for what it takes.
std::vector<unsigned> AxisProblem::makeInitial() const {
  std::vector<unsigned> assignment(problem.getNumVariables(), 0);
  for (auto [number, choices] : llvm::enumerate(candidates.groups))
    for (auto [i, choice] : llvm::enumerate(choices))
      if (choice.self.isShard()) {
        assignment[graph.ops.size() + number] = i;
        break;
      }
  for (auto [number, op] : llvm::enumerate(graph.ops)) {
    double best = 0;
    for (auto [i, strategy] : llvm::enumerate(candidates.ops[number])) {
      double seconds = getWork(number, strategy);
      for (auto [operand, use] : llvm::enumerate(op.operands)) {
        if (use == kNone)
          continue;
        const ValueNode &value = graph.values[graph.uses[use].value];
        seconds += op.weight * costs.redistribute(getMade(value, assignment[producerOf(value)]),
                                                  strategy.operands[operand], useBytes[use]);
      }
      if (i == 0 || seconds < best) {
        best = seconds;
        assignment[number] = i;
      }
    }
  }
  return assignment;
}

AxisSolution AxisProblem::solve() {
  solution = problem.solve(makeInitial());
  // Uses that were paid for one by one: one variable after the other, by what it really costs.
  bool isBetter = true;
  for (unsigned round = 0; round < 4 && isBetter; ++round) {
    isBetter = false;
    for (unsigned variable = 0; variable < problem.getNumVariables(); ++variable) {
      unsigned count = problem.getNumChoices(variable);
      if (count == 1)
        continue;
      auto cost = [&](unsigned choice) {
        return variable < graph.ops.size() ? costOf(variable, choice)
                                           : costOfGroup(variable - graph.ops.size(), choice);
      };
      double best = cost(solution.assignment[variable]);
      for (unsigned choice = 0; choice < count; ++choice) {
        double other = cost(choice);
        if (other < best - kTieBreak / 8) {
          best = other;
          solution.assignment[variable] = choice;
          isBetter = true;
        }
      }
    }
  }

  AxisSolution result;
  result.axis = axis;
  for (unsigned op = 0; op < graph.ops.size(); ++op)
    result.strategies.push_back(candidates.ops[op][solution.assignment[op]]);
  for (const ValueNode &value : graph.values)
    result.made.push_back(getMade(value, solution.assignment[producerOf(value)]));
  for (const Use &use : graph.uses)
    result.taken.push_back(getTaken(use, solution.assignment[userOf(use)]));
  return result;
}
