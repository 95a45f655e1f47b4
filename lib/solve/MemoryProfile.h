//===- MemoryProfile.h - usage by point, changed and asked by range -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_MEMORYPROFILE_H
#define CLEAVE_LIB_SOLVE_MEMORYPROFILE_H

#include "lib/solve/LiveRanges.h"

namespace cleave::solve {

/// Blocks of points with the largest usage in each: short ranges touch one or two of them, long
/// ones a number for each block.
class MemoryProfile {
public:
  explicit MemoryProfile(unsigned points)
      : points((points + blockSize - 1) / blockSize * blockSize + blockSize, 0),
        shared(this->points.size() / blockSize, 0), highest(shared.size(), 0) {}

  void add(PointRange range, double amount);
  /// The largest usage in a range, which is not empty.
  double getHighest(PointRange range) const;

private:
  static constexpr unsigned blockSize = 64;
  void addWithin(unsigned block, unsigned first, unsigned last, double amount);

  std::vector<double> points;
  /// By block: what was added to all of its points, and the largest of its points without that.
  std::vector<double> shared, highest;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_MEMORYPROFILE_H
