//===- RecomputeUnits.h - what is best recomputed together ------*- C++ -*-===//
//
// At a price for each saved byte, what to save and what to recompute is a minimum cut. As the
// price rises, more and more is recomputed, and what one rise adds falls into parts that have
// nothing to do with each other: one for each layer, say. These parts are what a search adds and
// takes away.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_RECOMPUTEUNITS_H
#define CLEAVE_LIB_BACKWARD_RECOMPUTEUNITS_H

#include "lib/backward/PartitionCosts.h"

namespace cleave::backward {

/// Choices that are recomputed together.
struct RecomputeUnit {
  llvm::SmallVector<unsigned> choices;
  /// Units that look the same, in the order of the function, have a class in common.
  unsigned likeness = 0;
};

/// All units, those that a lower price adds first, then in the order of the function.
std::vector<RecomputeUnit> findRecomputeUnits(const PartitionCosts &costs);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_RECOMPUTEUNITS_H
