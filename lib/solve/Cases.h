//===- Cases.h - bounds that are proved case by case -*- C++ -*-===//
//
// The solutions of a problem are divided into cases, by which choices of a group are left, and each
// case has a bound of its own: by messages and prices as in a certificate. What holds in all cases
// holds. Like a certificate's check, this knows the problem and what it is told only, and computes
// in exact integers; it keeps what is left in each case itself, so that nothing has to be believed.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_SOLVE_CASES_H
#define CLEAVE_LIB_SOLVE_CASES_H

#include "lib/solve/CertificateReader.h"

namespace cleave::solve {

class Cases : private CertificateReader {
public:
  /// One case at first, number 0: all that the certificate leaves. Of it count the removals and
  /// contractions.
  Cases(const Problem &problem, const Certificate &certificate);
  /// Whether the certificate holds; if not, nothing else is to be called.
  bool isValid() const { return isConfirmed; }

  /// Raises the case's bound to what messages and prices say, and leaves out all that is in no
  /// solution which costs less than `target`. Returns whether they hold; nothing has changed if
  /// not.
  bool raise(unsigned number, const Certificate &dual, std::optional<Cost> target);
  /// Two cases of one: that in which the group takes one of these choices, and all others. Returns
  /// the number of the second; the first keeps that of both.
  unsigned split(unsigned number, unsigned leader, llvm::ArrayRef<unsigned> choices);

  /// Whether nothing is left: no solution, or none that costs less than a target that was given.
  bool isClosed(unsigned number) const { return cases[number].isClosed; }
  bool isLeft(unsigned number, unsigned leader, unsigned choice) const {
    return cases[number].left[nodes[leader].offset + choice];
  }
  /// No solution of the case costs less.
  Cost getBound(unsigned number) const { return cases[number].bound; }
  /// No solution of any case costs less; nothing where none of them has a solution.
  std::optional<Cost> getBound() const;

private:
  struct Case {
    std::vector<bool> left;
    Cost bound;
    bool isClosed = false;
  };
  void load(const Case &entry);
  void store(Case &entry);
  void propagate(Case &entry);
  static Cost roundUp(Cost sum);

  std::vector<Case> cases;
  /// Links with forbidden pairs.
  std::vector<unsigned> constraints;
  /// The least target because of which anything was left out.
  std::optional<Cost> leastTarget;
  bool isConfirmed = false;
};

} // namespace cleave::solve

#endif // CLEAVE_LIB_SOLVE_CASES_H
