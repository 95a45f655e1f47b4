//===- MaxFlow.h - maximum flow and minimum cut --------------------*- C++ -*-===//
//
// Dinic's algorithm (E. A. Dinic, 1970): phases of breadth-first levels and blocking flows. On the
// graphs of training steps, where most capacities are infinite and paths are short between the few
// that are not, it takes milliseconds for ten thousand nodes.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_MAXFLOW_H
#define CLEAVE_LIB_BACKWARD_MAXFLOW_H

#include <cstdint>
#include <limits>
#include <vector>

namespace cleave::backward {

class MaxFlow {
public:
  /// A capacity that no cut goes through. Finite capacities must sum to less.
  static constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max() / 4;

  unsigned addNode();
  /// A directed edge; several between the same nodes add up.
  void addEdge(unsigned from, unsigned to, int64_t capacity);

  /// Computes a maximum flow once all edges are there and returns it: the capacity of a minimum
  /// cut, at least kInfinite where only infinite edges separate the two.
  int64_t solve(unsigned source, unsigned sink);

  /// After `solve`: whether the node is on the source's side of the minimum cut next to the source.
  bool isOnSourceSide(unsigned node) const { return level[node] >= 0; }

private:
  struct Edge {
    unsigned to;
    int64_t capacity; ///< what is left of it; the reverse edge is at the index with its last bit
                      ///< flipped
  };

  bool findLevels(unsigned source, unsigned sink);
  int64_t augment(unsigned source, unsigned sink);

  std::vector<Edge> edges;
  std::vector<std::vector<unsigned>> edgesOf;
  std::vector<int> level;
  std::vector<unsigned> next; ///< first edge of a node that may still lead to the sink
};

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_MAXFLOW_H
