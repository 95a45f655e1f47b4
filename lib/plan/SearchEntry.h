//===- SearchEntry.h - how far a search is with a layout ------------*- C++ -*-===//

#ifndef CLEAVE_LIB_PLAN_SEARCHENTRY_H
#define CLEAVE_LIB_PLAN_SEARCHENTRY_H

#include "lib/plan/Search.h"

#include <array>
#include <cmath>

namespace cleave::plan {

/// What layers of a layout depend on.
std::string describe(const Layout &layout);

/// A layout in stages, and what is known of it.
struct Search::Work {
  Shape shape;
  /// Seconds, infinite where it does not fit; bytes.
  double bound = 0, memory = 0;
  /// The bound by times of layers, of which further bounds are no less.
  double layers = 0;
  bool isDone = false;
  /// By schedule, once samples of its stages were looked at: of the layout whose batch is not
  /// divided, and of its own.
  std::optional<std::vector<PlanBound>> undivided, schedules;
  /// Whether samples of the layout whose batch is not divided raised the bound of all schedules.
  bool hasStages = false;
  /// Whether `schedules` has what FSDP gathers in each microbatch.
  bool hasGathers = false;

  /// Whether all is known of it that samples say.
  bool isRefined() const {
    return schedules && (hasGathers || shape.layout.sharding != Sharding::Fsdp);
  }
};

/// A layout and what is still to be looked at of it.
struct Search::Entry {
  LayoutReport report;
  std::vector<Work> works;
  /// Whether the program whose experts are not shared was looked at, and what it says.
  bool hasUnshared = false;
  std::optional<LayerTimes> unshared;
  /// The same of the one whose batch is not divided.
  bool hasUndivided = false;
  std::optional<LayerTimes> undivided;
  std::array<bool, 3> isRecomputed = {}; ///< likewise, by Recompute
  std::optional<LayerTimes> times;       // once it is partitioned

  /// The shape with the least bound of those that are left; null if there is none.
  const Work *findLeast() const {
    const Work *least = nullptr;
    for (const Work &work : works)
      if (!work.isDone && !std::isinf(work.bound) && (!least || work.bound < least->bound))
        least = &work;
    return least;
  }
};

} // namespace cleave::plan

#endif // CLEAVE_LIB_PLAN_SEARCHENTRY_H
