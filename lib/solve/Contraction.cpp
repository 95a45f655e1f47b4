//===- Contraction.cpp ------------------------------------------------------===//

#include "lib/solve/Contraction.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace cleave::solve;

static constexpr unsigned none = ~0u;

namespace {

/// Which choice the other end leaves, by choice of one end; nothing where it leaves several to one.
struct Function {
  std::optional<std::vector<unsigned>> columnOfRow, rowOfColumn;

  explicit Function(const Matrix &matrix) {
    columnOfRow.emplace(matrix.rows, none);
    rowOfColumn.emplace(matrix.columns, none);
    for (unsigned row = 0; row < matrix.rows; ++row)
      for (unsigned column = 0; column < matrix.columns; ++column) {
        if (matrix.costs[size_t(row) * matrix.columns + column] == forbidden)
          continue;
        if (columnOfRow && std::exchange((*columnOfRow)[row], column) != none)
          columnOfRow.reset();
        if (rowOfColumn && std::exchange((*rowOfColumn)[column], row) != none)
          rowOfColumn.reset();
        if (!columnOfRow && !rowOfColumn)
          return;
      }
  }
};

} // namespace

/// Returns whether costs were added without overflow; what is forbidden stays so.
static bool addTo(int64_t &sum, int64_t cost) {
  if (sum == forbidden || cost == forbidden) {
    sum = forbidden;
    return true;
  }
  return !__builtin_add_overflow(sum, cost, &sum) && sum != forbidden;
}

void Contraction::contractEdges(const Problem &whole) {
  llvm::ArrayRef<Node> nodes = whole.getNodes();
  std::vector<Function> functions;
  for (const Matrix &matrix : whole.getMatrices())
    functions.emplace_back(matrix);
  std::vector<std::vector<unsigned>> members(nodes.size());
  for (unsigned node = 0; node < nodes.size(); ++node)
    members[node] = {node};

  /// The follower's leader's choice by the other leader's; nothing where several are left.
  auto findMap = [&](unsigned follower, unsigned other,
                     const std::optional<std::vector<unsigned>> &function)
      -> std::optional<std::vector<unsigned>> {
    if (!function)
      return std::nullopt;
    std::vector<unsigned> leaderChoice(nodes[follower].size, none);
    for (auto [leaders, own] : llvm::enumerate(choices[follower]))
      if (std::exchange(leaderChoice[own], leaders) != none)
        return std::nullopt;
    std::vector<unsigned> map;
    for (unsigned choice : choices[other]) {
      unsigned own = (*function)[choice];
      // A choice without a partner is forbidden by the edge itself, whatever stands here.
      unsigned leaders = own == none ? none : leaderChoice[own];
      map.push_back(leaders == none ? 0 : leaders);
    }
    return map;
  };
  auto follow = [&](unsigned edge, bool ofFirst, llvm::ArrayRef<unsigned> map) {
    const Edge &entry = whole.getEdges()[edge];
    unsigned from = groups[ofFirst ? entry.first : entry.second];
    unsigned to = groups[ofFirst ? entry.second : entry.first];
    steps.push_back({edge, ofFirst});
    for (unsigned member : members[from]) {
      std::vector<unsigned> next;
      for (unsigned choice : map)
        next.push_back(choices[member][choice]);
      choices[member] = std::move(next);
      groups[member] = to;
    }
    members[to].insert(members[to].end(), members[from].begin(), members[from].end());
    members[from].clear();
  };
  // A second time for those that only follow once others do.
  for (unsigned pass = 0; pass < 2; ++pass)
    for (auto [number, edge] : llvm::enumerate(whole.getEdges())) {
      // Nodes with one choice have no say, and would only tie their neighbours to each other.
      if (groups[edge.first] == groups[edge.second] || nodes[groups[edge.first]].size == 1 ||
          nodes[groups[edge.second]].size == 1)
        continue;
      const Function &function = functions[edge.matrix];
      auto firstMap = findMap(edge.first, edge.second, function.rowOfColumn);
      auto secondMap = findMap(edge.second, edge.first, function.columnOfRow);
      size_t firstSize = members[groups[edge.first]].size();
      size_t secondSize = members[groups[edge.second]].size();
      if (firstMap && (!secondMap || firstSize < secondSize))
        follow(number, true, *firstMap);
      else if (secondMap)
        follow(number, false, *secondMap);
    }
}

void Contraction::build(const Problem &whole) {
  llvm::ArrayRef<Node> nodes = whole.getNodes();
  // From leaders to numbers.
  std::vector<unsigned> numbers(nodes.size(), none);
  for (unsigned node = 0; node < nodes.size(); ++node)
    if (groups[node] == node) {
      numbers[node] = leaders.size();
      leaders.push_back(node);
    }
  std::vector<std::vector<int64_t>> costs;
  for (unsigned leader : leaders)
    costs.emplace_back(nodes[leader].size, 0);
  auto add = [&](int64_t &sum, int64_t cost) { hasOverflow |= !addTo(sum, cost); };
  for (unsigned node = 0; node < nodes.size(); ++node) {
    groups[node] = numbers[groups[node]];
    for (auto [sum, choice] : llvm::zip_equal(costs[groups[node]], choices[node]))
      add(sum, whole.getCosts(node)[choice]);
  }
  // Equal sums of matrices are made once.
  std::map<std::vector<unsigned>, unsigned> mapNumbers;
  std::vector<unsigned> mapOf;
  for (const std::vector<unsigned> &map : choices)
    mapOf.push_back(mapNumbers.try_emplace(map, mapNumbers.size()).first->second);
  using Part = std::tuple<unsigned, unsigned, unsigned, bool>;
  struct Sum {
    std::vector<Part> parts;
    std::vector<unsigned> edges;
  };
  std::map<std::pair<unsigned, unsigned>, Sum> sums;
  for (auto [number, edge] : llvm::enumerate(whole.getEdges())) {
    unsigned first = groups[edge.first], second = groups[edge.second];
    const Matrix &matrix = whole.getMatrices()[edge.matrix];
    if (first == second) {
      for (auto [sum, row, column] :
           llvm::zip_equal(costs[first], choices[edge.first], choices[edge.second]))
        add(sum, matrix.costs[size_t(row) * matrix.columns + column]);
      continue;
    }
    bool isTurned = first > second;
    Sum &sum = sums[std::minmax(first, second)];
    sum.parts.push_back({edge.matrix, mapOf[edge.first], mapOf[edge.second], isTurned});
    sum.edges.push_back(number);
  }
  struct Made {
    Matrix matrix;
    /// In the smaller problem, once it has it.
    std::optional<unsigned> number;
    /// Which add up to the matrix, if any do.
    std::vector<int64_t> firstCosts, secondCosts;
  };
  std::map<std::vector<Part>, Made> made;
  struct NewEdge {
    unsigned first, second, matrix;
  };
  std::vector<NewEdge> newEdges;
  for (auto &[pair, sum] : sums) {
    llvm::sort(sum.parts);
    auto [known, isNew] = made.try_emplace(sum.parts);
    Made &entry = known->second;
    unsigned rows = costs[pair.first].size(), columns = costs[pair.second].size();
    if (isNew) {
      Matrix matrix{rows, columns, std::vector<int64_t>(size_t(rows) * columns, 0)};
      for (unsigned number : sum.edges) {
        const Edge &edge = whole.getEdges()[number];
        const Matrix &part = whole.getMatrices()[edge.matrix];
        bool isTurned = groups[edge.first] > groups[edge.second];
        llvm::ArrayRef<unsigned> ofRows = choices[isTurned ? edge.second : edge.first];
        llvm::ArrayRef<unsigned> ofColumns = choices[isTurned ? edge.first : edge.second];
        for (size_t row = 0; row < rows; ++row)
          for (size_t column = 0; column < columns; ++column) {
            size_t index = isTurned ? size_t(ofColumns[column]) * part.columns + ofRows[row]
                                    : size_t(ofRows[row]) * part.columns + ofColumns[column];
            add(matrix.costs[row * columns + column], part.costs[index]);
          }
      }
      // Whether all rows differ from the first by constants.
      bool isSeparable = !hasOverflow && !llvm::is_contained(matrix.costs, forbidden);
      for (size_t row = 1; row < rows && isSeparable; ++row)
        for (size_t column = 1; column < columns && isSeparable; ++column)
          isSeparable = Cost(matrix.costs[row * columns + column]) - matrix.costs[column] ==
                        Cost(matrix.costs[row * columns]) - matrix.costs[0];
      if (isSeparable) {
        for (size_t row = 0; row < rows; ++row)
          entry.firstCosts.push_back(matrix.costs[row * columns]);
        for (size_t column = 0; column < columns; ++column)
          entry.secondCosts.push_back(Cost(matrix.costs[column]) - matrix.costs[0]);
      }
      entry.matrix = std::move(matrix);
    }
    Link &link = links.emplace_back(Link{pair.first, pair.second, std::nullopt, {}, {}});
    if (!entry.firstCosts.empty()) {
      std::vector<int64_t> first = costs[pair.first], second = costs[pair.second];
      bool isSmall = true;
      for (auto [total, cost] : llvm::zip_equal(first, entry.firstCosts))
        isSmall &= addTo(total, cost);
      for (auto [total, cost] : llvm::zip_equal(second, entry.secondCosts))
        isSmall &= addTo(total, cost);
      if (isSmall) {
        costs[pair.first] = std::move(first);
        costs[pair.second] = std::move(second);
        link.firstCosts = entry.firstCosts;
        link.secondCosts = entry.secondCosts;
        continue;
      }
    }
    if (!entry.number)
      entry.number = problem.addMatrix(entry.matrix);
    link.edge = newEdges.size();
    newEdges.push_back({pair.first, pair.second, *entry.number});
  }
  problem.limit = whole.limit;
  for (const std::vector<int64_t> &own : costs)
    problem.addNode(0, 0, own, std::vector<int64_t>(own.size(), 0));
  for (const NewEdge &edge : newEdges)
    problem.addEdge(edge.first, edge.second, edge.matrix);
}

Contraction::Contraction(const Problem &whole, bool contract)
    : groups(whole.getNodes().size()), choices(whole.getNodes().size()) {
  std::iota(groups.begin(), groups.end(), 0);
  for (auto [own, node] : llvm::zip_equal(choices, whole.getNodes())) {
    own.resize(node.size);
    std::iota(own.begin(), own.end(), 0);
  }
  if (contract)
    contractEdges(whole);
  build(whole);
}

Assignment Contraction::expand(llvm::ArrayRef<unsigned> assignment) const {
  Assignment whole;
  for (auto [group, own] : llvm::zip_equal(groups, choices))
    whole.push_back(own[assignment[group]]);
  return whole;
}
