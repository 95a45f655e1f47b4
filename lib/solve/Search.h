//===- Search.h - upper bounds by moves that solve trees -*- C++ -*-===//
//
// An assignment that fits into memory is changed by moves: random nodes that hang together as a
// tree take the choices that are best given all others, by dynamic programming, as far as they fit
// into memory. Other moves take whole regions: as few of their nodes are held as make the tables of
// an exact elimination of all the others small. Memory is paid at the dual's prices, and costs are
// perturbed by a temperature that falls. Forbidden pairs are counted as one cost above all others
// until the search is rid of them.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_SEARCH_H
#define CLEAVE_LIB_SOLVE_SEARCH_H

#include "lib/solve/Elimination.h"
#include "lib/solve/MemoryProfile.h"
#include "lib/solve/MemoryUse.h"

#include <functional>
#include <limits>
#include <random>

namespace cleave::solve {

class Search {
public:
  /// Starts where each node uses as little memory as it can. Nodes with several segments may have
  /// no choice that is least in all of them: then what fits has to be found first.
  Search(const Problem &problem, const MemoryUse &use, uint64_t seed);

  /// By point, per unit of usage.
  void setPrices(llvm::ArrayRef<double> prices);
  /// Leaves the present assignment for this one, which fits into memory.
  void setAssignment(llvm::ArrayRef<unsigned> assignment);
  /// One node after the other takes the choice that the messages (by edge, to the first node and
  /// the second) and the choices made before say is best, as far as it fits into memory. Changes
  /// nothing if the last ones no longer fit.
  void construct(llvm::ArrayRef<unsigned> order, llvm::ArrayRef<double> messages, double price);

  /// Whether moves keep memory below the limit. If not, it has its price only, and what moves lead
  /// to is a solution wherever it fits.
  void setBounded(bool bounded);
  /// Of the present assignment, with memory at this part of its price.
  double getCost(double price) const;
  /// What it was made with, if that fits into memory.
  const std::optional<Assignment> &getOrigin() const { return origin; }
  const Assignment &getPresent() const { return present; }
  /// By point, of the present assignment.
  std::vector<double> getUsage() const;

  /// Temperature and the part of memory's price that is paid, which both change along the way.
  struct Stage {
    /// In units of cost.
    double temperature = 0;
    double price = 1;
    /// How many of the moves may take large parts of the graph along.
    double large = 0.4;
    /// How much work goes to blocks, for the work that goes to trees.
    double blocks = 0;
  };
  size_t getMovableCount() const { return movable.size(); }
  /// Moves until `next` returns nothing; it is asked every so many moves.
  void run(llvm::function_ref<std::optional<Stage>()> next);
  /// So many moves, of what fits or, unbounded, of what does not; with `untilFits` until it does.
  void makeMoves(const Stage &stage, unsigned moves, bool untilFits);

  /// Lowers what exceeds the limit, node by node. Returns whether nothing does.
  bool repair();
  /// Whether the present assignment fits into memory; nothing but construct(), repair() and,
  /// without a bound, makeMoves() can be done where it does not.
  bool fits() const { return isFitting; }
  bool hasSolution() const { return bestForbidden == 0; }
  const Assignment &getBest() const { return best; }
  bool isBetterThan(const Search &other) const { return bestEnergy < other.bestEnergy; }
  /// Moves between two questions of `run`.
  static constexpr unsigned movesAtOnce = 32;

private:
  /// In place of a choice: what uses least in each span.
  static constexpr unsigned least = ~0u - 1;
  struct Link {
    unsigned other;
    /// Where the messages to this node begin.
    size_t messages;
    /// The matrix with the other's choices as rows, and with this node's.
    const double *toOwn, *toOther;
  };
  struct TreeNode {
    unsigned node;
    /// In the tree; of itself for the root.
    unsigned parent;
    const Link *up;
    size_t offset;
    unsigned next;
  };
  /// Where a node's choices differ in what they use.
  struct Span {
    PointRange range;
    const double *usages;
    double least, most;
  };
  llvm::ArrayRef<Span> getSpans(unsigned node) const {
    return llvm::ArrayRef(spans).slice(firstSpan[node], firstSpan[node + 1] - firstSpan[node]);
  }
  /// Moves memory from one choice to another; `least` stands for the least in each span.
  void shift(unsigned node, unsigned from, unsigned to);
  /// Marks the choices for which there is no room, while memory has the node at its least.
  void findRoom(unsigned node);
  bool isWithinLimit() const {
    return use.getPointCount() == 0 || memory.getHighest({0, use.getPointCount()}) <= limit;
  }
  void move(const Stage &stage);
  void moveTree(const Stage &stage);
  /// Of a region.
  void moveBlock(const Stage &stage);
  void growRegion(unsigned root, unsigned size);
  /// Leaves out of the region what is held, and puts the others into the order in which they go.
  void orderRegion(double mostEntries);
  std::optional<double> changeOfBlock(const Stage &stage);
  /// Takes what was found for the tree or block, or leaves memory as it was.
  void accept(const Stage &stage, double change);
  void growTree(unsigned root, unsigned size);
  std::optional<double> changeOf(const Stage &stage);
  void setBase(unsigned node, const Stage &stage, double *own);
  void perturb(unsigned node, const Stage &stage, double extra, double *own);
  std::optional<unsigned> pick(unsigned node, const double *scores);
  void apply();
  void rebuild();
  void keepBest();
  double uniform() { return static_cast<double>(random() >> 11) * 0x1p-53; }
  double gumbel() { return noise[random() & (noise.size() - 1)]; }
  llvm::ArrayRef<Link> getLinks(unsigned node) const {
    return llvm::ArrayRef(links).slice(firstLink[node], firstLink[node + 1] - firstLink[node]);
  }

  const Problem &problem;
  const MemoryUse &use;
  std::mt19937_64 random;
  double unit, forbiddenCost, usageUnit, limit;
  std::vector<std::vector<double>> rows, columns;
  std::vector<double> costs, usages, priced;
  std::vector<Link> links;
  std::vector<size_t> firstLink;
  std::vector<unsigned> movable;
  std::vector<double> noise;
  std::vector<Span> spans;
  std::vector<size_t> firstSpan{0};

  Assignment present, best;
  std::optional<Assignment> origin;
  /// By choice: its cost given the neighbours' present choices.
  std::vector<double> given;
  MemoryProfile memory;
  double energy = 0, bestEnergy = std::numeric_limits<double>::infinity();
  unsigned bestForbidden = ~0u;
  bool isFitting = false, isBounded = true;

  std::vector<TreeNode> tree;
  std::vector<unsigned> touched, frontier;
  std::vector<const Link *> frontierLinks;
  std::vector<unsigned> treeNeighbours, positionInTree;
  std::vector<double> tables, message, scores;
  /// What trees and blocks have cost so far, in entries of tables: each get their part of the time.
  double treeWork = 0, blockWork = 0;
  /// Pairs within the block, by the positions of their ends; the first goes first.
  struct BlockPair {
    unsigned first, second;
    const Link *link;
  };
  std::vector<BlockPair> blockPairs;
  Elimination elimination;
  std::vector<char> isOut;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_SEARCH_H
