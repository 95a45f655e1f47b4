//===- MinCut.h - minimum cuts of networks with capacities ---------*- C++ -*-===//
//
// Dinic's algorithm (Dinitz 1970): shortest augmenting paths, all of one length at a time. Networks
// of programs have a source next to every sink, so that paths are short and a few rounds suffice.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_MINCUT_H
#define CLEAVE_LIB_SOLVE_MINCUT_H

#include "llvm/ADT/BitVector.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace cleave::solve {

/// A directed network. Nodes are numbered from 0 in the order in which they are added.
class Network {
public:
  using Node = uint32_t;
  /// The capacity of an edge that no cut may contain.
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  Node addNode() { return numNodes++; }
  /// `capacity` is not negative.
  void addEdge(Node from, Node to, int64_t capacity);

  struct Cut {
    int64_t capacity = 0;
    /// The nodes on the sink's side. Of all minimum cuts this is the one with the fewest of them.
    llvm::BitVector sinkSide;
  };
  /// A minimum cut between `source` and `sink`; none if a path of unlimited edges joins them.
  /// Finite capacities must sum to less than 2^62. Consumes the capacities: call it once.
  std::optional<Cut> findMinCut(Node source, Node sink);

  /// The largest power of two, up to `wanted`, by which capacities that sum to `total` may be
  /// multiplied.
  static int64_t chooseScale(double total, int64_t wanted);

private:
  struct Edge {
    Node to;
    uint32_t reverse; ///< index of the opposite edge
    int64_t residual;
  };
  struct Pending {
    Node from, to;
    int64_t capacity;
  };
  void build(int64_t unlimited);
  bool findDistances(Node source, Node sink);
  int64_t augment(Node source, Node sink);
  llvm::BitVector findSinkSide(Node sink) const;

  Node numNodes = 0;
  std::vector<Pending> pending;
  /// Edges of node n: begin[n] to begin[n + 1].
  std::vector<uint32_t> begin;
  std::vector<Edge> edges;
  std::vector<int32_t> distance; ///< to the sink; -1: unreachable
  std::vector<uint32_t> next;    ///< first edge of a node that may still lead to the sink
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_MINCUT_H
