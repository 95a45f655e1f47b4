//===- Problem.h - choices with costs by pair, under a limit of memory -*- C++ -*-===//
//
// A node takes one of its choices. A solution costs what its choices cost, and for each edge what
// its matrix says of the two ends' choices. A choice uses memory while its node is live, and at no
// time may the live nodes use more than the limit. Costs are exact integers, forbidden choices and
// pairs are marked as such. Knows nothing of MLIR or programs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_PROBLEM_H
#define CLEAVE_LIB_SOLVE_PROBLEM_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cleave::solve {

/// Sums of costs, and of usages: single ones are below 2^63, sums are not.
using Cost = __int128;
std::string toString(Cost cost);

/// The cost of what no solution may contain.
inline constexpr int64_t forbidden = INT64_MAX;

struct Node {
  /// Live at start <= time < end.
  int64_t start, end;
  /// Of its first choice, among the choices of all nodes.
  size_t offset;
  unsigned size;
  bool isLive() const { return start < end; }
};

struct Matrix {
  unsigned rows, columns;
  /// Row-major.
  std::vector<int64_t> costs;
};

/// The matrix has the first node's choices as rows.
struct Edge {
  unsigned first, second, matrix;
};

using Assignment = std::vector<unsigned>;

class Problem {
public:
  int64_t limit = 0;

  unsigned addNode(int64_t start, int64_t end, llvm::ArrayRef<int64_t> costs,
                   llvm::ArrayRef<int64_t> usages);
  unsigned addMatrix(Matrix matrix);
  /// Edges between the same nodes add up, and so does one between a node and itself.
  void addEdge(unsigned first, unsigned second, unsigned matrix);
  /// To be called once, after the last edge: makes one edge of those between the same nodes.
  void mergeEdges();

  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  llvm::ArrayRef<Matrix> getMatrices() const { return matrices; }
  llvm::ArrayRef<Edge> getEdges() const { return edges; }
  /// Of all nodes' choices.
  llvm::ArrayRef<int64_t> getCosts() const { return costs; }
  llvm::ArrayRef<int64_t> getUsages() const { return usages; }
  llvm::ArrayRef<int64_t> getCosts(unsigned node) const {
    return getCosts().slice(nodes[node].offset, nodes[node].size);
  }
  llvm::ArrayRef<int64_t> getUsages(unsigned node) const {
    return getUsages().slice(nodes[node].offset, nodes[node].size);
  }

  /// Nothing where a choice or a pair is forbidden.
  std::optional<Cost> getCost(llvm::ArrayRef<unsigned> assignment) const;
  Cost getPeak(llvm::ArrayRef<unsigned> assignment) const;
  bool isFeasible(llvm::ArrayRef<unsigned> assignment) const {
    return getCost(assignment) && getPeak(assignment) <= limit;
  }

private:
  std::vector<Node> nodes;
  std::vector<int64_t> costs, usages;
  std::vector<Matrix> matrices;
  std::vector<Edge> edges;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_PROBLEM_H
