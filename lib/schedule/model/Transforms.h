// Rewrites of compute-only programs before sends and receives are added.

#ifndef CLEAVE_LIB_SCHEDULE_MODEL_TRANSFORMS_H
#define CLEAVE_LIB_SCHEDULE_MODEL_TRANSFORMS_H

#include "lib/schedule/model/Schedule.h"

namespace cleave::schedule {

/// Joins each backward-input that its backward-weight follows at once into one full backward,
/// which computes what both need only once.
void mergeBackward(Schedule &program);

/// Adds the reduction of each stage's buckets (reduceS.0 to reduceS.n-1, n = buckets[S]) right
/// after the last action that adds to the stage's weight gradients; where the program reduces some
/// of the stage already, the others right after the last of these. `buckets` has one entry per
/// stage.
void addGradientReductions(Schedule &program, llvm::ArrayRef<unsigned> buckets);

/// Adds the optimizer step of every stage that takes none yet at the end of its rank's list.
void addOptimizerSteps(Schedule &program);

/// Adds unshard and reshard around the stages' computations so that a rank holds the whole
/// parameters of the `maxActive` stages (at least 1) that it uses next, and of no others; a group's
/// stages are all held. What leaves is resharded before what comes is unsharded. The order is that
/// of torch's `_add_unshard_reshard`, found in O(n k log k) for k stages a rank (torch: O(n^2)).
llvm::Error addUnshards(Schedule &program, unsigned maxActive = 3);

} // namespace cleave::schedule

#endif // CLEAVE_LIB_SCHEDULE_MODEL_TRANSFORMS_H
