//===- Model.cpp - reduced, contracted, reduced again ----------------------===//

#include "lib/solve/Model.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace cleave::solve;

Model::Model(const Problem &whole) : whole(whole), reduction(whole) {
  if (reduction.isInfeasible)
    return;
  const Problem &wide = reduction.problem;
  contraction.emplace(wide, true);
  if (contraction->hasOverflow)
    contraction.emplace(wide, false);
  groups.emplace(contraction->problem);
  if (groups->isInfeasible)
    return;
  live.emplace(wide);
  use.emplace(live->times.size());
  std::vector<std::vector<unsigned>> members(contraction->leaders.size());
  for (auto [node, group] : llvm::enumerate(contraction->groups))
    members[group].push_back(node);
  findReplaced(members);
  std::vector<MemoryUse::Part> parts;
  for (auto [group, nodes] : llvm::enumerate(members)) {
    parts.clear();
    for (unsigned node : nodes) {
      if (live->ranges[node].isEmpty())
        continue;
      MemoryUse::Part &part = parts.emplace_back(MemoryUse::Part{live->ranges[node], {}});
      for (unsigned choice : kept[group])
        part.usages.push_back(wide.getUsages(node)[contraction->choices[node][choice]]);
    }
    use->addNode(kept[group].size(), parts);
  }
}

void Model::findReplaced(llvm::ArrayRef<std::vector<unsigned>> members) {
  const Problem &wide = reduction.problem;
  PartUsages usages;
  for (auto [group, nodes] : llvm::enumerate(members)) {
    auto &parts = usages.emplace_back();
    for (unsigned node : nodes) {
      if (live->ranges[node].isEmpty())
        continue;
      std::vector<int64_t> &part = parts.emplace_back();
      for (unsigned choice : groups->kept[group])
        part.push_back(wide.getUsages(node)[contraction->choices[node][choice]]);
    }
    // Of thousands of members, few differ.
    llvm::sort(parts);
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  }
  dominance.emplace(groups->problem, usages);
  // Forbidden, they are left out; their neighbours' choices keep the partners that replace them.
  Problem marked;
  marked.limit = groups->problem.limit;
  std::vector<std::vector<int64_t>> costs;
  for (unsigned group = 0; group < members.size(); ++group)
    costs.push_back(groups->problem.getCosts(group).vec());
  for (const Dominance::Removal &removal : dominance->removed)
    costs[removal.node][removal.choice] = forbidden;
  for (const std::vector<int64_t> &own : costs)
    marked.addNode(0, 0, own, std::vector<int64_t>(own.size(), 0));
  for (const Matrix &matrix : groups->problem.getMatrices())
    marked.addMatrix(matrix);
  for (const Edge &edge : groups->problem.getEdges())
    marked.addEdge(edge.first, edge.second, edge.matrix);
  thinned.emplace(marked);
  for (auto [before, after] : llvm::zip_equal(groups->kept, thinned->kept)) {
    std::vector<unsigned> &numbers = kept.emplace_back();
    for (unsigned choice : after)
      numbers.push_back(before[choice]);
  }
}

Assignment Model::expand(llvm::ArrayRef<unsigned> assignment) const {
  return reduction.expand(contraction->expand(groups->expand(thinned->expand(assignment))));
}

MemoryUse Model::getWideUse() const {
  MemoryUse result(live->times.size());
  for (auto [number, node] : llvm::enumerate(getWide().getNodes())) {
    MemoryUse::Part part{live->ranges[number], getWide().getUsages(number).vec()};
    result.addNode(node.size, part);
  }
  return result;
}

Assignment Model::contract(llvm::ArrayRef<unsigned> wide) const {
  Assignment result;
  for (auto [group, leader] : llvm::enumerate(contraction->leaders)) {
    unsigned choice = llvm::find(groups->kept[group], wide[leader]) - groups->kept[group].begin();
    unsigned instead = groups->kept[group][dominance->replace(group, choice)];
    result.push_back(llvm::find(kept[group], instead) - kept[group].begin());
  }
  return result;
}

static Cost toFixed(double value) {
  // Rounded first where a double has digits below the unit.
  return static_cast<Cost>(std::round(value * static_cast<double>(Cost(1) << Certificate::shift)));
}

Certificate Model::getCertificate(const Dual::State &state) const {
  Certificate certificate = getSteps();
  if (!isInfeasible())
    addDual(certificate, state);
  return certificate;
}

Certificate Model::getSteps() const {
  Certificate certificate;
  certificate.removed = reduction.removed;
  if (reduction.isInfeasible)
    return certificate;
  certificate.contracted = contraction->steps;
  for (auto [group, choice] : groups->removed) {
    unsigned leader = contraction->leaders[group];
    certificate.removedFromGroups.push_back({leader, reduction.kept[leader][choice], std::nullopt});
  }
  if (groups->isInfeasible)
    return certificate;
  for (const Dominance::Removal &removal : dominance->removed) {
    unsigned leader = contraction->leaders[removal.node];
    llvm::ArrayRef<unsigned> numbers = groups->kept[removal.node];
    certificate.removedFromGroups.push_back({leader,
                                             reduction.kept[leader][numbers[removal.choice]],
                                             reduction.kept[leader][numbers[removal.instead]]});
  }
  return certificate;
}

void Model::addDual(Certificate &certificate, const Dual::State &state) const {
  size_t next = 0, count = 0;
  for (const Contraction::Link &link : contraction->links)
    for (unsigned group : {link.first, link.second})
      count += whole.getNodes()[contraction->leaders[group]].size;
  certificate.messages.reserve(count);
  // Numbers of choices lead from the groups' to their leaders' to those of the whole problem.
  auto addMessages = [&](unsigned group, llvm::ArrayRef<int64_t> costs) {
    unsigned leader = contraction->leaders[group];
    size_t offset = certificate.messages.size();
    certificate.messages.resize(offset + whole.getNodes()[leader].size);
    for (unsigned choice : kept[group])
      certificate.messages[offset + reduction.kept[leader][choice]] =
          costs.empty() ? toFixed(state.messages[next++])
                        : Cost(costs[choice]) << Certificate::shift;
  };
  for (const Contraction::Link &link : contraction->links) {
    addMessages(link.first, link.firstCosts);
    addMessages(link.second, link.secondCosts);
  }
  for (auto [time, price] : llvm::zip_equal(live->times, state.prices))
    if (Cost fixed = toFixed(price); fixed > 0)
      certificate.prices.push_back({time, fixed});
}
