//===- RedistributionSearch.h - ways between placements of a value --*- C++ -*-===//
//
// Dijkstra's search over the placements of one value. A state is a placement on each axis; an edge
// is one `dist` op over one or more axes, or a conversion on one. With the two to four axes of a
// mesh and the few dimensions of a tensor there are some hundred states. Searches from all of them
// share the edges.
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

/// The states of a value and what leads from one to the other, as far as a search has come.
class RedistributionGraph {
public:
  using Kind = RedistributionStep::Kind;
  struct Edge {
    unsigned target;
    Kind kind;
    dist::Reduction reduction;
    /// In `overAxes`, major first.
    unsigned firstAxis, axisCount;
    int64_t bytes, gathered, scattered;
  };

  /// `to`: one of the targets, which agree on what is partial, how, and what is replicated.
  /// `staysWhole`: by axis, whether it is replicated before and after.
  RedistributionGraph(mlir::RankedTensorType type, llvm::ArrayRef<dist::AxisPlacement> to,
                      llvm::ArrayRef<char> staysWhole, llvm::ArrayRef<MeshAxis> axes);

  unsigned numberOf(llvm::ArrayRef<dist::AxisPlacement> state);
  /// The first one's number, and that behind the last one's.
  std::pair<unsigned, unsigned> getEdges(unsigned state);
  const Edge &getEdge(unsigned number) const { return edges[number]; }
  RedistributionStep getStep(unsigned edge) const;
  /// Whether the value can be divided so.
  bool isPossible(llvm::ArrayRef<dist::AxisPlacement> state) const {
    return localShape(type.getShape(), state, axes).has_value();
  }

private:
  using State = llvm::SmallVector<dist::AxisPlacement, 4>;

  int64_t ranksOf(llvm::ArrayRef<unsigned> along) const {
    int64_t ranks = 1;
    for (unsigned axis : along)
      ranks *= axes[axis].size;
    return ranks;
  }
  bool divides(int64_t dim, int64_t ranks) const;
  State stateOf(unsigned number) const;
  void expand(unsigned number);
  bool isLegal() const;
  void reducePartials();
  void moveShards();
  void convert();
  void scatterOrders(dist::Reduction reduction, llvm::ArrayRef<unsigned> candidates,
                     llvm::SmallVectorImpl<unsigned> &chosen);
  void add(Kind kind, llvm::ArrayRef<unsigned> along, dist::AxisPlacement next, int64_t bytes,
           dist::Reduction reduction = dist::Reduction::Sum, int64_t gathered = 0);

  mlir::RankedTensorType type;
  int64_t wholeBytes;
  State to;
  llvm::SmallVector<char, 4> staysWhole;
  llvm::ArrayRef<MeshAxis> axes;
  Words states;
  std::vector<Edge> edges;
  std::vector<unsigned> overAxes;
  /// By state, where they are known.
  std::vector<std::optional<std::pair<unsigned, unsigned>>> edgesOf;

  /// Of what is expanded: the state, what a rank holds of it, and by dimension the axes that shard
  /// it, major first, and how many parts they make.
  State state;
  int64_t localBytes = 0;
  llvm::SmallVector<llvm::SmallVector<unsigned, 4>, 4> sharding;
  llvm::SmallVector<int64_t, 4> parts;
  llvm::SmallVector<Letter, 8> word, next;
};

/// From one placement to any in the graph. It goes on where it was when the last target was
/// reached.
class RedistributionSearch {
public:
  RedistributionSearch(RedistributionGraph &graph, llvm::ArrayRef<dist::AxisPlacement> from);

  std::optional<Redistribution> find(llvm::ArrayRef<dist::AxisPlacement> target);

private:
  static constexpr unsigned none = ~0u;
  /// Bytes first, then collectives, then steps.
  struct Cost {
    int64_t bytes = 0;
    unsigned collectives = 0;
    unsigned steps = 0;

    auto operator<=>(const Cost &) const = default;
  };
  struct Node {
    unsigned state;
    Cost cost;
    /// The node before, and the edge from it.
    unsigned previous = 0, edge = 0;
    bool isDone = false;
  };

  void expand(unsigned node);
  /// None where it was not seen yet.
  unsigned &nodeOf(unsigned state) {
    if (state >= nodeNumbers.size())
      nodeNumbers.resize(2 * size_t(state) + 1, none);
    return nodeNumbers[state];
  }
  Redistribution getWay(unsigned node) const;

  RedistributionGraph &graph;
  bool isPossible;
  /// In the order in which they were found, which decides between ways that cost the same.
  std::vector<Node> nodes;
  /// By state.
  std::vector<unsigned> nodeNumbers;
  using Entry = std::pair<Cost, unsigned>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
};

} // namespace cleave::placement

#endif // CLEAVE_LIB_PLACEMENT_REDISTRIBUTIONSEARCH_H
