//===- Lifetimes.h - which uses share a form, and how long it is held -*- C++ -*-===//
//
// Time is counted in ops, through all functions. An op's result is held from the op to the last use
// of it or of a view of it. Where uses share a form, the form is held from the first of them on,
// and what it was made from no longer for their sake.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_LIFETIMES_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_LIFETIMES_H

#include "lib/placement/propagate/Graph.h"

namespace cleave::placement::propagate {

/// Uses of a value that go on from one form of it.
struct SharedUses {
  llvm::SmallVector<unsigned, 2> uses;
  /// Whether the form is chosen by itself; if not, there is one use, which takes the value as it
  /// likes.
  bool isShared = false;
  /// When the form is held: start <= time < end.
  int64_t start = 0, end = 0;
};

class Lifetimes {
public:
  /// With `countsMemory`, a form that is held beyond its use is chosen by itself, too.
  Lifetimes(const Graph &graph, bool countsMemory);

  /// By value: uses of one form. The backward has one of its own of what is made of a parameter
  /// alone, which it gathers again.
  std::vector<llvm::SmallVector<SharedUses, 1>> shared;
  /// By value: uses that take it as it is made.
  std::vector<llvm::SmallVector<unsigned, 1>> fixed;
  /// By value: until when it is held as it is made.
  std::vector<int64_t> end;
  /// By value: whether it is made in memory of its own. What is written to an argument's place, and
  /// arguments themselves, are their groups'.
  std::vector<char> hasMemory;

private:
  bool isOfParameter(const ValueNode &value) const;
  bool isView(unsigned op) const;
  int64_t reachOf(const Use &use) const;

  const Graph &graph;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_LIFETIMES_H
