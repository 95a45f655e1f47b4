//===- Solver.cpp - elimination of variables ------------------------------===//

#include "lib/placement/propagate/Solver.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>
#include <queue>

using namespace cleave::placement::propagate;

unsigned CostProblem::addVariable(unsigned choices) {
  assert(choices && "a variable has a choice");
  sizes.push_back(choices);
  return sizes.size() - 1;
}

void CostProblem::addTable(llvm::ArrayRef<unsigned> variables, std::vector<double> costs) {
  assert(llvm::is_sorted(variables) && "variables stand in rising order");
  tables.push_back({llvm::SmallVector<unsigned, 4>(variables), std::move(costs)});
}

double CostProblem::evaluate(llvm::ArrayRef<unsigned> assignment) const {
  double cost = 0;
  for (const Table &table : tables) {
    size_t index = 0;
    for (unsigned variable : table.variables)
      index = index * sizes[variable] + assignment[variable];
    cost += table.costs[index];
  }
  return cost;
}

namespace cleave::placement::propagate {

/// One round: eliminates all variables, holding some at their present choice where it must.
class Elimination {
public:
  Elimination(const CostProblem &problem, std::vector<unsigned> &assignment,
              std::vector<unsigned> &timesHeld, size_t maxTable)
      : sizes(problem.sizes), tables(problem.tables), assignment(assignment), timesHeld(timesHeld),
        maxTable(maxTable), tablesOf(sizes.size()), isGone(sizes.size()), version(sizes.size()) {
    for (auto [number, table] : llvm::enumerate(tables))
      for (unsigned variable : table.variables)
        tablesOf[variable].push_back(number);
  }

  /// Leaves the round's solution in the assignment. Returns whether variables were held.
  bool run();

private:
  using Table = CostProblem::Table;
  struct Step {
    unsigned variable;
    llvm::SmallVector<unsigned, 4> neighbours;
    /// The best choice by the neighbours' choices.
    std::vector<unsigned> best;
  };
  struct Candidate {
    double size;
    unsigned variable, version;
    bool operator<(const Candidate &other) const {
      // The queue's top is the largest.
      return std::tie(size, variable) > std::tie(other.size, other.variable);
    }
  };

  llvm::SmallVector<unsigned, 8> getNeighbours(unsigned variable) const;
  void enqueue(unsigned variable);
  void touch(llvm::ArrayRef<unsigned> variables);
  void eliminate(unsigned variable);
  void hold(unsigned variable);
  unsigned pickHeld() const;
  void drop(unsigned table);

  const std::vector<unsigned> &sizes;
  std::vector<Table> tables;
  std::vector<unsigned> &assignment, &timesHeld;
  size_t maxTable;
  std::vector<llvm::SmallVector<unsigned, 4>> tablesOf;
  std::vector<char> isGone;
  std::vector<unsigned> version;
  std::priority_queue<Candidate> queue;
  std::vector<Step> steps;
};

} // namespace cleave::placement::propagate

llvm::SmallVector<unsigned, 8> Elimination::getNeighbours(unsigned variable) const {
  llvm::SmallVector<unsigned, 8> neighbours;
  for (unsigned table : tablesOf[variable])
    for (unsigned other : tables[table].variables)
      if (other != variable)
        neighbours.push_back(other);
  llvm::sort(neighbours);
  neighbours.erase(llvm::unique(neighbours), neighbours.end());
  return neighbours;
}

/// Elimination takes as many sums as the joint table of the variable and its neighbours has
/// entries.
void Elimination::enqueue(unsigned variable) {
  double size = sizes[variable];
  for (unsigned other : getNeighbours(variable))
    size *= sizes[other];
  queue.push({size, variable, ++version[variable]});
}

void Elimination::touch(llvm::ArrayRef<unsigned> variables) {
  for (unsigned variable : variables)
    enqueue(variable);
}

void Elimination::drop(unsigned table) {
  for (unsigned variable : tables[table].variables)
    llvm::erase(tablesOf[variable], table);
  tables[table] = {};
}

void Elimination::eliminate(unsigned variable) {
  llvm::SmallVector<unsigned, 8> neighbours = getNeighbours(variable);
  llvm::SmallVector<unsigned, 4> mine = tablesOf[variable];
  size_t count = 1;
  for (unsigned other : neighbours)
    count *= sizes[other];

  // By table: how far its index moves with each neighbour's choice, and with the variable's.
  struct Strides {
    const double *costs;
    llvm::SmallVector<size_t, 8> byNeighbour;
    size_t own = 0;
    size_t offset = 0;
  };
  llvm::SmallVector<Strides, 4> strides;
  for (unsigned number : mine) {
    const Table &table = tables[number];
    Strides &entry = strides.emplace_back();
    entry.costs = table.costs.data();
    entry.byNeighbour.assign(neighbours.size(), 0);
    size_t stride = 1;
    for (unsigned other : llvm::reverse(table.variables)) {
      if (other == variable)
        entry.own = stride;
      else
        entry.byNeighbour[llvm::lower_bound(neighbours, other) - neighbours.begin()] = stride;
      stride *= sizes[other];
    }
  }

  Step step{variable, llvm::SmallVector<unsigned, 4>(neighbours.begin(), neighbours.end()),
            std::vector<unsigned>(count)};
  std::vector<double> costs(count);
  llvm::SmallVector<unsigned, 8> choices(neighbours.size(), 0);
  double lowest = 0;
  for (size_t index = 0; index < count; ++index) {
    double best = 0;
    for (unsigned choice = 0; choice < sizes[variable]; ++choice) {
      double cost = 0;
      for (const Strides &entry : strides)
        cost += entry.costs[entry.offset + choice * entry.own];
      if (choice == 0 || cost < best) {
        best = cost;
        step.best[index] = choice;
      }
    }
    costs[index] = best;
    lowest = index == 0 ? best : std::min(lowest, best);
    for (int digit = static_cast<int>(neighbours.size()) - 1; digit >= 0; --digit) {
      bool wraps = ++choices[digit] == sizes[neighbours[digit]];
      for (Strides &entry : strides)
        entry.offset +=
            wraps ? -entry.byNeighbour[digit] * (choices[digit] - 1) : entry.byNeighbour[digit];
      if (!wraps)
        break;
      choices[digit] = 0;
    }
  }
  steps.push_back(std::move(step));
  isGone[variable] = true;
  for (unsigned number : mine)
    drop(number);
  if (!neighbours.empty()) {
    // Only differences matter; small numbers stay exact.
    for (double &cost : costs)
      cost -= lowest;
    for (unsigned other : neighbours)
      tablesOf[other].push_back(tables.size());
    tables.push_back(
        {llvm::SmallVector<unsigned, 4>(neighbours.begin(), neighbours.end()), std::move(costs)});
  }
  touch(neighbours);
}

/// Takes the variable out of all tables, at its present choice.
void Elimination::hold(unsigned variable) {
  llvm::SmallVector<unsigned, 8> neighbours = getNeighbours(variable);
  for (unsigned number : llvm::SmallVector<unsigned, 4>(tablesOf[variable])) {
    Table &table = tables[number];
    size_t inner = 1, outer = 1;
    bool isBehind = false;
    for (unsigned other : table.variables) {
      if (other == variable)
        isBehind = true;
      else
        (isBehind ? inner : outer) *= sizes[other];
    }
    std::vector<double> costs;
    costs.reserve(inner * outer);
    for (size_t i = 0; i < outer; ++i) {
      auto begin = table.costs.begin() + (i * sizes[variable] + assignment[variable]) * inner;
      costs.insert(costs.end(), begin, begin + inner);
    }
    table.costs = std::move(costs);
    llvm::erase(table.variables, variable);
  }
  tablesOf[variable].clear();
  isGone[variable] = true;
  ++timesHeld[variable];
  touch(neighbours);
}

/// The one with the most neighbours among those held least often.
unsigned Elimination::pickHeld() const {
  unsigned best = sizes.size();
  size_t bestDegree = 0;
  for (unsigned variable = 0; variable < sizes.size(); ++variable) {
    if (isGone[variable] || sizes[variable] == 1)
      continue;
    size_t degree = getNeighbours(variable).size();
    if (best == sizes.size() || timesHeld[variable] < timesHeld[best] ||
        (timesHeld[variable] == timesHeld[best] && degree > bestDegree)) {
      best = variable;
      bestDegree = degree;
    }
  }
  return best;
}

bool Elimination::run() {
  bool anyHeld = false;
  for (unsigned variable = 0; variable < sizes.size(); ++variable)
    enqueue(variable);
  while (!queue.empty()) {
    Candidate next = queue.top();
    if (isGone[next.variable] || version[next.variable] != next.version) {
      queue.pop();
      continue;
    }
    if (next.size <= static_cast<double>(maxTable)) {
      queue.pop();
      eliminate(next.variable);
      continue;
    }
    hold(pickHeld());
    anyHeld = true;
  }
  for (const Step &step : llvm::reverse(steps)) {
    size_t index = 0;
    for (unsigned other : step.neighbours)
      index = index * sizes[other] + assignment[other];
    assignment[step.variable] = step.best[index];
  }
  return anyHeld;
}

CostProblem::Solution CostProblem::solve(llvm::ArrayRef<unsigned> initial,
                                         const Options &options) const {
  Solution solution;
  solution.assignment.assign(initial.begin(), initial.end());
  solution.cost = evaluate(initial);
  std::vector<unsigned> timesHeld(sizes.size());
  for (unsigned round = 0; round < options.maxRounds; ++round) {
    std::vector<unsigned> assignment = solution.assignment;
    bool anyHeld = Elimination(*this, assignment, timesHeld, options.maxTable).run();
    double cost = evaluate(assignment);
    bool isBetter = cost < solution.cost;
    if (isBetter || !anyHeld) {
      solution.assignment = std::move(assignment);
      solution.cost = cost;
    }
    solution.isOptimal = !anyHeld;
    // The second round holds other variables; if that does not help either, this is it.
    if (!anyHeld || (round > 0 && !isBetter))
      break;
  }
  return solution;
}
