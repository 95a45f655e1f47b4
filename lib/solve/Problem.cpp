//===- Problem.cpp - evaluation, and one edge a pair of nodes ------------===//

#include "lib/solve/Problem.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <cassert>

using namespace cleave::solve;

std::string cleave::solve::toString(Cost cost) {
  bool isNegative = cost < 0;
  // The least value has no opposite, so the digits are taken with their sign.
  std::string text;
  do {
    int digit = static_cast<int>(cost % 10);
    text += static_cast<char>('0' + (digit < 0 ? -digit : digit));
    cost /= 10;
  } while (cost != 0);
  if (isNegative)
    text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

unsigned Problem::addNode(int64_t start, int64_t end, llvm::ArrayRef<int64_t> nodeCosts,
                          llvm::ArrayRef<int64_t> nodeUsages) {
  assert(!nodeCosts.empty() && nodeCosts.size() == nodeUsages.size() && "a node has a choice");
  nodes.push_back({start, end, costs.size(), static_cast<unsigned>(nodeCosts.size())});
  costs.insert(costs.end(), nodeCosts.begin(), nodeCosts.end());
  usages.insert(usages.end(), nodeUsages.begin(), nodeUsages.end());
  return nodes.size() - 1;
}

unsigned Problem::addMatrix(Matrix matrix) {
  assert(matrix.costs.size() == size_t(matrix.rows) * matrix.columns && "every pair has a cost");
  matrices.push_back(std::move(matrix));
  return matrices.size() - 1;
}

void Problem::addEdge(unsigned first, unsigned second, unsigned matrix) {
  assert(matrices[matrix].rows == nodes[first].size &&
         matrices[matrix].columns == nodes[second].size && "the matrix fits the nodes");
  edges.push_back({first, second, matrix});
}

static int64_t addCosts(int64_t a, int64_t b) {
  int64_t sum;
  return a == forbidden || b == forbidden || __builtin_add_overflow(a, b, &sum) ? forbidden : sum;
}

void Problem::mergeEdges() {
  // By pair in rising order: the matrices, and whether each is to be transposed.
  std::map<std::pair<unsigned, unsigned>, std::vector<std::pair<unsigned, bool>>> byPair;
  for (const Edge &edge : edges) {
    if (edge.first == edge.second) {
      const Node &node = nodes[edge.first];
      for (unsigned choice = 0; choice < node.size; ++choice) {
        int64_t &cost = costs[node.offset + choice];
        cost = addCosts(cost, matrices[edge.matrix].costs[size_t(choice) * node.size + choice]);
      }
      continue;
    }
    bool isTurned = edge.first > edge.second;
    byPair[std::minmax(edge.first, edge.second)].push_back({edge.matrix, isTurned});
  }
  edges.clear();
  std::map<std::vector<std::pair<unsigned, bool>>, unsigned> sums;
  for (auto &[pair, parts] : byPair) {
    if (parts.size() == 1) {
      auto [matrix, isTurned] = parts.front();
      edges.push_back(isTurned ? Edge{pair.second, pair.first, matrix}
                               : Edge{pair.first, pair.second, matrix});
      continue;
    }
    llvm::sort(parts);
    auto [known, isNew] = sums.try_emplace(parts, matrices.size());
    if (isNew) {
      Matrix sum{nodes[pair.first].size, nodes[pair.second].size, {}};
      sum.costs.assign(size_t(sum.rows) * sum.columns, 0);
      for (auto [matrix, isTurned] : parts)
        for (size_t row = 0; row < sum.rows; ++row)
          for (size_t column = 0; column < sum.columns; ++column) {
            int64_t &cost = sum.costs[row * sum.columns + column];
            size_t index = isTurned ? column * sum.rows + row : row * sum.columns + column;
            cost = addCosts(cost, matrices[matrix].costs[index]);
          }
      matrices.push_back(std::move(sum));
    }
    edges.push_back({pair.first, pair.second, known->second});
  }
}

std::optional<Cost> Problem::getCost(llvm::ArrayRef<unsigned> assignment) const {
  Cost sum = 0;
  for (auto [node, choice] : llvm::zip_equal(nodes, assignment)) {
    int64_t cost = costs[node.offset + choice];
    if (cost == forbidden)
      return std::nullopt;
    sum += cost;
  }
  for (const Edge &edge : edges) {
    const Matrix &matrix = matrices[edge.matrix];
    int64_t cost =
        matrix.costs[size_t(assignment[edge.first]) * matrix.columns + assignment[edge.second]];
    if (cost == forbidden)
      return std::nullopt;
    sum += cost;
  }
  return sum;
}

Cost Problem::getPeak(llvm::ArrayRef<unsigned> assignment) const {
  std::vector<std::pair<int64_t, Cost>> events;
  for (auto [node, choice] : llvm::zip_equal(nodes, assignment))
    if (Cost usage = usages[node.offset + choice]; node.isLive() && usage) {
      events.push_back({node.start, usage});
      events.push_back({node.end, -usage});
    }
  // What ends at a time is gone before what starts then: releases sort first.
  llvm::sort(events);
  Cost present = 0, peak = 0;
  for (auto [time, change] : events)
    peak = std::max(peak, present += change);
  return peak;
}
