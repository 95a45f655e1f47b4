//===- Model.h - the smaller problem that is solved -*- C++ -*-===//

#ifndef CLEAVE_LIB_SOLVE_MODEL_H
#define CLEAVE_LIB_SOLVE_MODEL_H

#include "lib/solve/Certificate.h"
#include "lib/solve/Dual.h"
#include "lib/solve/Reduction.h"

namespace cleave::solve {

/// A problem without its impossible choices, contracted, and without what that made impossible.
class Model {
public:
  explicit Model(const Problem &whole);

  /// Whether no solution is left; then there is nothing else but a certificate.
  bool isInfeasible() const { return reduction.isInfeasible || groups->isInfeasible; }
  const Problem &getProblem() const { return groups->problem; }
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

private:
  const Problem &whole;
  Reduction reduction;
  std::optional<LiveRanges> live;
  std::optional<Contraction> contraction;
  std::optional<Reduction> groups;
  std::optional<MemoryUse> use;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_MODEL_H
