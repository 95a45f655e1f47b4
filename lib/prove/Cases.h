//===- Cases.h - values that differ by a rank's place ----------------*- C++ -*-===//
//
// What goes round a ring is one block on some ranks and another one on others: a sum of summands
// with conditions on places, of which one holds. In a region of places all such conditions are
// decided, so that a function of the value is, region by region, the function of what it is there.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_PROVE_CASES_H
#define CLEAVE_LIB_PROVE_CASES_H

#include "lib/prove/Term.h"

namespace cleave::prove {

/// Where these conditions hold, each on one digit.
using Case = llvm::SmallVector<Guard, 1>;

/// The condition, if it is one on one of `digits` alone.
bool isOnDigit(const Guard &guard, llvm::ArrayRef<Var> digits);

/// Regions that together are all places, in each of which every condition of the meanings on one of
/// `digits` holds or does not. Nothing if they are too many.
std::optional<std::vector<Case>> listCases(Terms &terms, llvm::ArrayRef<const Meaning *> meanings,
                                           llvm::ArrayRef<Var> digits);
/// What the meaning is there, without the conditions that the region decides.
Meaning within(Terms &terms, const Meaning &meaning, const Case &region);
/// The least and the greatest value of `index` there.
std::pair<int64_t, int64_t> rangeWithin(const Index &index, const Case &region,
                                        const Variables &variables);
/// Adds the region's conditions to each summand.
void limitTo(Meaning &meaning, const Case &region);

} // namespace cleave::prove

#endif // CLEAVE_LIB_PROVE_CASES_H
