//===- Model.h - the smaller problem that is solved -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_MODEL_H
#define CLEAVE_LIB_SOLVE_MODEL_H

#include "lib/solve/Certificate.h"
#include "lib/solve/Dominance.h"
#include "lib/solve/Dual.h"
#include "lib/solve/Reduction.h"

namespace cleave::solve {

/// A problem without its impossible choices, contracted, without what that made impossible, and
/// without choices that others replace.
class Model {
public:
  explicit Model(const Problem &whole);

  /// Whether no solution is left; then there is nothing else but a certificate.
  bool isInfeasible() const { return reduction.isInfeasible || groups->isInfeasible; }
  const Problem &getProblem() const { return thinned->problem; }
  const MemoryUse &getUse() const { return *use; }
  Assignment expand(llvm::ArrayRef<unsigned> assignment) const;

  /// The problem before edges were contracted. Choices that use the least memory fit there
  /// together, whatever edges say, where here it may take a search to find some that fit.
  const Problem &getWide() const { return reduction.problem; }
  MemoryUse getWideUse() const;
  Assignment expandWide(llvm::ArrayRef<unsigned> assignment) const {
    return reduction.expand(assignment);
  }
  /// Of one in which no pair is forbidden.
  Assignment contract(llvm::ArrayRef<unsigned> wide) const;

  Certificate getCertificate(const Dual::State &state) const;
  /// It without messages and prices, and these alone.
  Certificate getSteps() const;
  void addDual(Certificate &certificate, const Dual::State &state) const;
  /// The node of the whole problem that a node stands for, and the number of a choice there.
  unsigned getLeader(unsigned node) const { return contraction->leaders[node]; }
  unsigned getChoice(unsigned node, unsigned choice) const {
    return reduction.kept[getLeader(node)][kept[node][choice]];
  }

private:
  /// Leaves out choices that others replace; gets the nodes of each group.
  void findReplaced(llvm::ArrayRef<std::vector<unsigned>> members);

  const Problem &whole;
  Reduction reduction;
  std::optional<LiveRanges> live;
  std::optional<Contraction> contraction;
  std::optional<Reduction> groups;
  std::optional<Dominance> dominance;
  std::optional<Reduction> thinned;
  /// By node of the smallest problem: its choices' numbers among its group's.
  std::vector<std::vector<unsigned>> kept;
  std::optional<MemoryUse> use;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_MODEL_H
