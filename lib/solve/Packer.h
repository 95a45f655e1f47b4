//===- Packer.h - bottom-up search for the offsets of buffers -*- C++ -*-===//
//
// The search behind Packing.h: depth-first, over packings in which offsets never fall from one
// placed buffer to the next.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_PACKER_H
#define CLEAVE_LIB_SOLVE_PACKER_H

#include "lib/solve/Packing.h"

namespace cleave::solve {

/// Buffers that take up space, with the points in time (as in LiveRanges.h) at which they are live.
class Packer {
public:
  Packer(llvm::ArrayRef<Buffer> buffers, int64_t capacity, llvm::function_ref<bool()> isStopped);

  /// In this order where several could be placed; gives up after so many steps.
  enum Outcome { Found, None, GaveUp };
  Outcome search(llvm::ArrayRef<unsigned> order, uint64_t steps);
  /// Each in turn as low as it fits among those before it, whatever the capacity.
  int64_t firstFit(llvm::ArrayRef<unsigned> order);

  unsigned size() const { return items.size(); }
  std::vector<int64_t> getOffsets() const;

  struct Weights {
    double total, failures, area, length;
  };
  /// By falling weighted sum of the logarithms of: the largest sum of sizes at a point where it is
  /// live, the most failures at such a point, its area, and its length.
  std::vector<unsigned> getOrder(const Weights &weights) const;
  /// Makes earlier failures count less, beside those to come.
  void fadeFailures();
  void forgetFailures() { failures.assign(points, 1); }

private:
  struct Item {
    unsigned buffer;
    int64_t size;
    unsigned first, last;
    double length;
  };
  /// What all choices at a step have in common.
  struct Step {
    unsigned first, last;
    /// By point from `first`, the sum of open sizes.
    std::vector<double> sums;
    /// By item, its lowest top as getLowestTop() gives it; -1 where nothing has asked yet.
    std::vector<int64_t> lowestTops;
  };
  bool place(std::vector<unsigned> open, int64_t bottom, unsigned lastRank);
  bool placeParts(std::vector<unsigned> open, int64_t bottom, unsigned lastRank);
  bool fits(llvm::ArrayRef<unsigned> open);
  bool isKnownToFail(unsigned item, Step &step);
  bool isFullAt(unsigned point, unsigned item, Step &step) const;
  int64_t getRaised(unsigned other, unsigned item, Step &step) const;
  int64_t getLowestTop(unsigned item) const;
  void recordFailure(unsigned point);
  bool overlap(unsigned a, unsigned b) const;
  double sumUp(llvm::ArrayRef<unsigned> open, unsigned first, unsigned last);
  std::pair<unsigned, unsigned> getRange(llvm::ArrayRef<unsigned> open) const;

  llvm::ArrayRef<Buffer> buffers;
  int64_t capacity;
  llvm::function_ref<bool()> isStopped;
  std::vector<Item> items;
  std::vector<std::vector<unsigned>> neighbours;
  unsigned points = 0;
  /// By point, what is live there.
  std::vector<std::vector<unsigned>> itemsAt;
  /// In doubles, which hold sums below 2^53 exactly, because the compiler makes vectors of them.
  std::vector<double> sums, floors;
  std::vector<int64_t> lowest, raised, offsets;
  std::vector<char> isPlaced;
  std::vector<unsigned> rank;
  /// By point, how often a choice failed there, faded.
  std::vector<double> failures;
  /// Points where the last choices failed, the latest first: the next one most likely fails there.
  std::vector<unsigned> witnesses;
  /// Where fits() found too little space.
  unsigned failedAt = 0;
  uint64_t stepsLeft = 0;
  bool isCut = false;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_PACKER_H
