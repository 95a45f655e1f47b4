//===- Contraction.h - nodes whose choice another one's decides -*- C++ -*-===//
//
// Where an edge leaves at most one choice of one end to each choice of the other, the one node
// follows the other: the edge is contracted, and what was the node's becomes a part of the other's.
// Programs are full of such edges (a value and its gradient, results of one operation), and moves
// that change one end at a time never get across them. What is left is a smaller problem with the
// same solutions, in which a node uses memory at several times.
//
// Edges of the smaller problem that do not depend on both ends are worked into the nodes' costs.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_CONTRACTION_H
#define CLEAVE_LIB_SOLVE_CONTRACTION_H

#include "lib/solve/Reduction.h"

namespace cleave::solve {

struct Contraction {
  /// With `contract` false, every node stands for itself.
  Contraction(const Problem &problem, bool contract);

  struct Step {
    unsigned edge;
    /// Whether the nodes that go with the edge's first end follow those of the second, or those of
    /// the second follow those of the first.
    bool ofFirst;
  };
  std::vector<Step> steps;
  /// By node: which of the smaller problem's it is part of, and its choice by that one's choice.
  std::vector<unsigned> groups;
  std::vector<std::vector<unsigned>> choices;
  /// By node of the smaller problem: the node whose choices it has. They rise.
  std::vector<unsigned> leaders;
  /// No live ranges and no usages: those are of the nodes (MemoryUse.h).
  Problem problem;
  /// Between each two nodes of the smaller problem that had an edge, in rising order; the first
  /// node is the smaller one.
  struct Link {
    unsigned first, second;
    /// Of the smaller problem, whose edges have the same order; none if it was worked into the
    /// nodes' costs, to which it then adds these.
    std::optional<unsigned> edge;
    std::vector<int64_t> firstCosts, secondCosts;
  };
  std::vector<Link> links;
  /// Whether sums of costs were too large; then nothing else holds.
  bool hasOverflow = false;

  Assignment expand(llvm::ArrayRef<unsigned> assignment) const;

private:
  void contractEdges(const Problem &whole);
  void build(const Problem &whole);
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_CONTRACTION_H
