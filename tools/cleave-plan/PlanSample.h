//===- PlanSample.h - random plans, compared to their bounds --------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_PLAN_PLANSAMPLE_H
#define CLEAVE_TOOLS_CLEAVE_PLAN_PLANSAMPLE_H

#include "lib/plan/Search.h"

namespace cleave::plan {

struct SampleOptions {
  /// How many plans that fit are to be simulated.
  unsigned count = 0;
  uint64_t seed = 1;
  /// Bytes of a device.
  double memory = 0;
  /// Whether each is carried out with all of its layers, too.
  bool confirms = false;
};

/// Simulates random plans of the space, and fails if one takes or needs less than its bounds.
/// docs/planner.md says how they are drawn.
llvm::Error samplePlans(const Space &space, Search &search, const SearchResult &result,
                        const SampleOptions &options);

} // namespace cleave::plan

#endif // CLEAVE_TOOLS_CLEAVE_PLAN_PLANSAMPLE_H
