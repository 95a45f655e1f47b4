//===- Frontier.h - partitions that trade memory for time -----------*- C++ -*-===//
//
// The partitions of a graph than which none that was found has both a lower peak and less to
// recompute. They are found without regard to any budget, and a budget takes the fastest of
// those within it: so a smaller budget never gets a higher peak than a larger one.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_FRONTIER_H
#define CLEAVE_LIB_BACKWARD_FRONTIER_H

#include "lib/backward/PartitionCosts.h"

namespace cleave::backward {

class Frontier {
public:
  struct Point {
    PartitionCosts::Costs costs;
    /// The choices that it saves.
    llvm::BitVector kept;
  };
  /// From the lowest peak to the highest; time falls.
  llvm::ArrayRef<Point> getPoints() const { return points; }
  /// The fastest within a peak; null if all are above it.
  const Point *find(int64_t peakBytes) const;
  /// Whether no point was as good.
  bool insert(PartitionCosts::Costs costs, const llvm::BitVector &kept);

private:
  std::vector<Point> points;
};

/// Searches: all partitions, where these are few enough to try, else the parts that rising prices
/// of memory recompute, the `seeds`, what lies near them, and where walks lead. Deterministic; the
/// work is bounded whatever the size of the graph; of several graphs that are searched together,
/// each of the `parts` has as much.
Frontier findFrontier(PartitionCosts &costs, llvm::ArrayRef<llvm::BitVector> seeds,
                      unsigned parts = 1);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_FRONTIER_H
