//===- Elimination.h - variables minimized out one by one -*- C++ -*-===//
//
// Exact minimization of a sum of costs of single variables and of pairs: one variable after the
// other is replaced by a table over those that it shares costs with. What tables would exceed a
// size is cut by holding some variables where they are.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_ELIMINATION_H
#define CLEAVE_LIB_SOLVE_ELIMINATION_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <vector>

namespace cleave::solve {

/// An order in which tables stay small.
class EliminationOrder {
public:
  /// Of variables 0 to the number of sizes, of which these pairs share costs.
  EliminationOrder(llvm::ArrayRef<unsigned> sizes,
                   llvm::ArrayRef<std::pair<unsigned, unsigned>> pairs);
  /// Variables in the order in which they go, the one with the smallest table first; where that has
  /// more entries than `mostEntries`, one of those left is held and is not in the result.
  /// `chooseHeld` picks it from those left, given the entries of their tables as logarithms.
  std::vector<unsigned>
  find(double mostEntries,
       llvm::function_ref<size_t(llvm::ArrayRef<unsigned> left, llvm::ArrayRef<double> entries)>
           chooseHeld);

private:
  void remove(unsigned variable, bool joinsNeighbours);
  void weigh(unsigned variable);
  bool areNeighbours(unsigned first, unsigned second) const {
    return bits[first * words + second / 64] >> (second % 64) & 1;
  }

  std::vector<double> logSizes, entries;
  size_t words;
  std::vector<uint64_t> bits;
};

/// Variables are added in the order in which they go.
class Elimination {
public:
  void clear();
  void addVariable(llvm::ArrayRef<double> costs);
  /// Rows are the choices of `second`, which goes later than `first`. The table is not copied.
  void addPair(unsigned first, unsigned second, const double *table);
  /// Leaves the tables from which getCosts() reads. Returns how many entries were computed.
  uint64_t run();
  /// By choice of the variable: what it and all that went before it cost at least, given the
  /// choices of those that go later.
  void getCosts(unsigned variable, llvm::ArrayRef<unsigned> choices,
                llvm::SmallVectorImpl<double> &costs) const;

private:
  struct Factor {
    /// Those that go later come first, so that the one that goes next is the innermost.
    llvm::SmallVector<unsigned, 6> scope;
    /// Where its entries are, of those given or computed.
    const double *given;
    size_t offset;
  };
  struct Variable {
    size_t offset;
    unsigned size;
    /// That it is the first to go of.
    llvm::SmallVector<unsigned, 6> factors;
  };
  const double *getTable(const Factor &factor) const {
    return factor.given ? factor.given : computed.data() + factor.offset;
  }
  uint64_t eliminate(unsigned variable);

  std::vector<Variable> variables;
  std::vector<Factor> factors;
  std::vector<double> own, computed, sums;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_ELIMINATION_H
