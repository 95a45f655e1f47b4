//===- RedistributionSearch.h - ways between placements of a value --*- C++ -*-===//
//
// Dijkstra's search over the placements of one value. A state is a placement on each axis; an edge
// is one `dist` op over one or more axes, or a conversion on one. With the two to four axes of a
// mesh and the few dimensions of a tensor there are some hundred states.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PLACEMENT_REDISTRIBUTIONSEARCH_H
#define CLEAVE_LIB_PLACEMENT_REDISTRIBUTIONSEARCH_H

#include "lib/placement/Redistribution.h"

#include <queue>

namespace cleave::placement {

/// A placement on one axis as a number, to be compared and hashed fast.
using Letter = uint32_t;
Letter toLetter(const dist::AxisPlacement &placement);
dist::AxisPlacement fromLetter(Letter letter);

/// Numbers words of letters, all of one length, as they come; once numbered, none goes.
class Words {
public:
  explicit Words(unsigned length) : length(length), slots(64, none) {}

  /// The word's number, and whether it is new.
  std::pair<unsigned, bool> add(llvm::ArrayRef<Letter> word);
  std::optional<unsigned> find(llvm::ArrayRef<Letter> word) const {
    unsigned number = slots[slotOf(word)];
    return number == none ? std::nullopt : std::optional(number);
  }
  llvm::ArrayRef<Letter> operator[](unsigned number) const {
    return llvm::ArrayRef(letters).slice(size_t(number) * length, length);
  }

private:
  static constexpr unsigned none = ~0u;
  size_t slotOf(llvm::ArrayRef<Letter> word) const;

  unsigned length, count = 0;
  std::vector<Letter> letters;
  /// A power of two, at most half of which are taken: from each word's hash on.
  std::vector<unsigned> slots;
};

/// From one placement to any of a kind. It goes on where it was when the last target was reached.
class RedistributionSearch {
public:
  /// `to`: one of the targets. Of each target, what decides which edges there are is the same.
  RedistributionSearch(mlir::RankedTensorType type, llvm::ArrayRef<dist::AxisPlacement> from,
                       llvm::ArrayRef<dist::AxisPlacement> to, llvm::ArrayRef<MeshAxis> axes);

  std::optional<Redistribution> find(llvm::ArrayRef<dist::AxisPlacement> target);

private:
  using Kind = RedistributionStep::Kind;
  using State = llvm::SmallVector<dist::AxisPlacement, 4>;

  /// Bytes first, then collectives, then steps.
  struct Cost {
    int64_t bytes = 0;
    unsigned collectives = 0;
    unsigned steps = 0;

    auto operator<=>(const Cost &) const = default;
  };
  /// Its number is that of its state.
  struct Node {
    Cost cost;
    /// The node before, and the step from it; its axes stand in `along`.
    unsigned previous = 0;
    unsigned axisCount = 0;
    Kind kind = Kind::Convert;
    dist::Reduction reduction = dist::Reduction::Sum;
    int64_t gathered = 0, scattered = 0;
    bool isDone = false;
  };

  int64_t ranksOf(llvm::ArrayRef<unsigned> along) const {
    int64_t ranks = 1;
    for (unsigned axis : along)
      ranks *= axes[axis].size;
    return ranks;
  }
  bool divides(int64_t dim, int64_t ranks) const;

  void expand(unsigned node);
  bool isLegal() const;
  void reducePartials();
  void moveShards();
  void convert();
  void scatterOrders(dist::Reduction reduction, llvm::ArrayRef<unsigned> candidates,
                     llvm::SmallVectorImpl<unsigned> &chosen);
  void add(Kind kind, llvm::ArrayRef<unsigned> along, dist::AxisPlacement next, int64_t bytes,
           dist::Reduction reduction = dist::Reduction::Sum, int64_t gathered = 0);
  State stateOf(unsigned node) const;
  RedistributionStep getStep(unsigned node) const;
  Redistribution getWay(unsigned node) const;

  mlir::RankedTensorType type;
  int64_t wholeBytes;
  State from, to;
  bool isPossible;
  llvm::ArrayRef<MeshAxis> axes;
  Words states;
  std::vector<Node> nodes;
  /// By node and axis.
  std::vector<unsigned> along;
  using Entry = std::pair<Cost, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;

  /// Of the node that is expanded: itself, its state, what a rank holds of it, and by dimension the
  /// axes that shard it, major first, and how many parts they make.
  unsigned present = 0;
  State state;
  int64_t localBytes = 0;
  llvm::SmallVector<llvm::SmallVector<unsigned, 4>, 4> sharding;
  llvm::SmallVector<int64_t, 4> parts;
  llvm::SmallVector<Letter, 8> word, next;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_REDISTRIBUTIONSEARCH_H
