//===- Certificate.h - what proves a lower bound -*- C++ -*-===//
//
// A bound is believed only as far as these functions confirm it. They know the problem and the
// certificate, nothing of how it was found, and compute in exact integers.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_CERTIFICATE_H
#define CLEAVE_LIB_SOLVE_CERTIFICATE_H

#include "lib/solve/Contraction.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace cleave::solve {

/// Messages and prices are in units of 2^-shift.
struct Certificate {
  static constexpr unsigned shift = 32;
  /// Node and choice: each of them impossible given those before it.
  std::vector<std::pair<unsigned, unsigned>> removed;
  /// Edges that, among what is left, allow at most one choice of one end's group to each of the
  /// other's: the nodes of the one then follow those of the other, and take its group's choices. At
  /// first each node is a group by itself, of its own choices.
  std::vector<Contraction::Step> contracted;
  struct GroupRemoval {
    /// The node that leads the group.
    unsigned leader, choice;
    /// A choice that is left, and in whose place this one makes no solution cheaper or smaller at
    /// any time; without it, no choice of some other group may stand beside this one.
    std::optional<unsigned> instead;
  };
  /// Each given those before it. Some best solution needs none of these choices.
  std::vector<GroupRemoval> removedFromGroups;
  /// By pair of groups with edges, in rising order of the nodes that lead them: what their edges
  /// together take from each choice of the first, then of the second. Those of removed choices mean
  /// nothing.
  std::vector<Cost> messages;
  /// Time and price of memory there, at least 0; in rising order of time.
  std::vector<std::pair<int64_t, Cost>> prices;
};

struct Bound {
  /// No solution exists.
  bool isInfeasible = false;
  /// No solution costs less.
  Cost cost = 0;
};

/// Nothing where the certificate is wrong: choices removed without reason, negative prices, sums
/// that overflow.
std::optional<Bound> check(const Problem &problem, const Certificate &certificate);

struct Proof {
  /// Whether the search went through: then no solution is cheaper than `best`, or than `upper`.
  bool isComplete = false;
  std::optional<Assignment> best;
};

/// Looks for solutions that cost less than `upper` (nothing: any) through all choices, leaving out
/// what the certificate, which holds, shows to be no better. Gives up after so many steps, or when
/// stopped.
Proof exhaust(const Problem &problem, const Certificate &certificate, std::optional<Cost> upper,
              uint64_t steps, llvm::function_ref<bool()> isStopped);

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_CERTIFICATE_H
