//===- MemoryUse.h - what each choice uses, by point in time -*- C++ -*-===//
//
// Over the points that LiveRanges keeps, a node's usage is a list of segments, in each of which
// every choice uses a fixed amount. A node of a problem has at most one, one that stands for
// several nodes (Contraction.h) many.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_MEMORYUSE_H
#define CLEAVE_LIB_SOLVE_MEMORYUSE_H

#include "lib/solve/LiveRanges.h"

namespace cleave::solve {

class MemoryUse {
public:
  struct Segment {
    PointRange range;
    /// Of its first choice's usage, among all segments' usages.
    size_t offset;
  };

  explicit MemoryUse(unsigned points) : points(points) {}

  unsigned getPointCount() const { return points; }
  /// Those in which choices differ come first.
  llvm::ArrayRef<Segment> getSegments(unsigned node) const {
    return llvm::ArrayRef(segments).slice(ends[node], ends[node + 1] - ends[node]);
  }
  llvm::ArrayRef<Segment> getVarying(unsigned node) const {
    return llvm::ArrayRef(segments).slice(ends[node], varyingEnds[node] - ends[node]);
  }
  const int64_t *getUsages(const Segment &segment) const { return &usages[segment.offset]; }
  /// Adds to each choice's cost what the segments, which are of one node, use at the prices of
  /// which these are the sums from the first point on.
  void addPriced(llvm::ArrayRef<Segment> segments, llvm::ArrayRef<double> sums,
                 llvm::MutableArrayRef<double> costs) const;
  llvm::ArrayRef<int64_t> getAllUsages() const { return usages; }

  struct Part {
    PointRange range;
    /// By choice of the node that it becomes a part of.
    std::vector<int64_t> usages;
  };
  /// The next node, which uses in each point what its parts use together; sums above the largest
  /// integer are that.
  void addNode(unsigned choices, llvm::ArrayRef<Part> parts);

private:
  unsigned points;
  std::vector<Segment> segments;
  std::vector<size_t> ends{0}, varyingEnds;
  std::vector<int64_t> usages;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_MEMORYUSE_H
