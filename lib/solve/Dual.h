//===- Dual.h - lower bounds by messages and prices of memory -*- C++ -*-===//
//
// The Lagrangian dual of the problem in which choices of nodes and pairs of edges agree and memory
// has a price by point in time. For given prices, messages are updated node by node along chains
// (TRW-S), which never lowers the bound; trees that hang on the rest send theirs in one go. Prices
// follow averaged subgradients. All in doubles: the certificate is what counts (Certificate.h).
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_DUAL_H
#define CLEAVE_LIB_SOLVE_DUAL_H

#include "lib/solve/MemoryUse.h"
#include "lib/solve/PairCosts.h"

#include <limits>

namespace cleave::solve {

class Dual {
public:
  explicit Dual(const Problem &problem, const MemoryUse &memory);

  /// One sweep in both directions, and a step of the prices. `upper` is the cost of a solution, or
  /// infinite.
  void iterate(double upper);

  /// Sweeps without steps until the bound rises by no more than this part of itself, at most so
  /// often; returns it.
  double settle(double part, unsigned most);
  void setPrices(llvm::ArrayRef<double> prices);
  /// Those of the last sweep, which need not be the best.
  llvm::ArrayRef<double> getMessages() const { return messages; }
  /// Goes on from the best state.
  void restore();
  /// Begins with these, which are good already: prices change little.
  void start(std::vector<double> messages, std::vector<double> prices);
  /// By choice: what messages and prices leave of its cost, those of the last sweep.
  llvm::ArrayRef<double> getPotentials() const { return potentials; }

  struct State {
    /// By edge: those of the first node's choices, then the second's.
    std::vector<double> messages;
    /// By point.
    std::vector<double> prices;
    double bound = -std::numeric_limits<double>::infinity();
  };
  const State &getBest() const { return best; }
  /// What the last forward sweep chose, one node after the other.
  llvm::ArrayRef<unsigned> getDecoded() const { return decoded; }
  double getDecodedCost() const;
  /// Whether the steps have become too small to raise the bound much.
  bool isStalled() const { return reach < 1e-5; }
  const PairCosts &getPairCosts() const { return pairs; }
  /// The order in which choices are read off the messages: trees last, from their roots on.
  std::vector<unsigned> getOrder() const;

private:
  struct Link {
    unsigned edge, other;
    bool isFirst;
  };
  void orderNodes();
  const double *getRows(const Link &link) const;
  const double *getRow(const Link &link, unsigned size) const;
  double *toOwn(const Link &link);
  double *toOther(const Link &link);
  void collect(unsigned node, const Link &link);
  void distribute(unsigned node, llvm::ArrayRef<Link> links, double weight);
  void sweepTrees();
  void sweepForward();
  void sweepBackward();
  void decodeTrees();
  void sweep();
  void keepBest();
  void setPotentials();
  void stepPrices(double upper);
  double computeBound() const;

  const Problem &problem;
  const MemoryUse &memory;
  PairCosts pairs;
  std::vector<double> messages, potentials, prices;
  /// Nodes of trees from the leaves on, each with the link to its parent; then the others, with
  /// their links before and after them.
  std::vector<std::pair<unsigned, Link>> trees;
  std::vector<unsigned> core;
  std::vector<std::vector<Link>> before, after;
  Assignment decoded;
  std::vector<double> direction, scratch;
  State best;
  double bound = -std::numeric_limits<double>::infinity();
  double reach = 0.3;
  double reference = -std::numeric_limits<double>::infinity();
  unsigned iterations = 0, sinceProgress = 0;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_DUAL_H
