//===- JointChoices.h - how ops and arguments may lie on all axes ---*- C++ -*-===//
//
// The choices of an op are the combinations of its strategies along the axes that fit together;
// those of a group, of its placements. Where several axes shard one dimension, each order of the
// axes is a choice of its own. Ops that are alike share their choices.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCHOICES_H
#define CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCHOICES_H

#include "lib/placement/propagate/Candidates.h"

namespace cleave::placement::propagate {

/// How a value lies on the mesh: an entry an axis, with orders.
using MeshPlacement = llvm::SmallVector<dist::AxisPlacement, 2>;

/// Gives equal things the same number.
template <typename T> class Numbering {
public:
  unsigned operator()(const T &thing) {
    auto [it, isNew] = numbers.try_emplace(thing, things.size());
    if (isNew)
      things.push_back(&it->first);
    return it->second;
  }
  const T &operator[](unsigned number) const { return *things[number]; }
  size_t size() const { return things.size(); }

private:
  std::map<T, unsigned> numbers;
  std::vector<const T *> things;
};

struct OpChoice {
  /// By axis, which of the op's candidates there.
  llvm::SmallVector<unsigned, 2> strategies;
};

/// Ops of one name, with the same attributes, types and candidates.
struct OpClass {
  std::vector<OpChoice> choices;
  /// By operand and result, the list of its placements by choice; kNone for what is not a tensor.
  llvm::SmallVector<unsigned, 4> operands;
  llvm::SmallVector<unsigned, 2> results;
};

class JointChoices {
public:
  /// Emits an error where annotations contradict each other or leave no choice.
  static mlir::FailureOr<JointChoices> collect(const Graph &graph, llvm::ArrayRef<MeshAxis> axes);

  /// Variables are the ops and then the groups.
  unsigned getNumVariables() const { return classOf.size() + groupSizes.size(); }
  unsigned getNumChoices(unsigned variable) const {
    return variable < classOf.size() ? classes[classOf[variable]].choices.size()
                                     : groupSizes[variable - classOf.size()];
  }
  unsigned producerOf(const ValueNode &value) const;
  unsigned userOf(const Use &use) const;
  const AxisStrategy &getStrategy(unsigned op, unsigned choice, unsigned axis) const {
    return candidates[axis].ops[op][classes[classOf[op]].choices[choice].strategies[axis]];
  }

  /// By axis.
  std::vector<Candidates> candidates;
  /// By op.
  std::vector<unsigned> classOf;
  std::vector<OpClass> classes;
  std::vector<unsigned> groupSizes;
  /// By value and by use, the list of its placements by choice of who makes or takes it.
  std::vector<unsigned> made, taken;
  Numbering<std::vector<unsigned>> lists;
  const MeshPlacement &getPlacement(unsigned number) const { return placements[number]; }

private:
  class Builder;
  const Graph *graph = nullptr;
  std::vector<MeshPlacement> placements;
};

} // namespace cleave::placement::propagate

#endif // CLEAVE_LIB_PLACEMENT_PROPAGATE_JOINTCHOICES_H
