// A measured step of a run, as cleave-run --profile writes it, to compare with the predicted one.

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_MEASURED_H
#define CLEAVE_TOOLS_CLEAVE_SIM_MEASURED_H

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace cleave::sim {

/// Times are in milliseconds, from the step's first action.
struct MeasuredStep {
  struct Action {
    std::string text; // "F2.0"
    double begin = 0; // when the rank came to it
    double ready = 0; // when what it waited for was there
    double end = 0;
  };
  struct Rank {
    int64_t rank = 0;  // of the run
    int64_t place = 0; // along the pipeline: the schedule's rank
    std::vector<Action> actions;
  };
  int64_t step = 0;
  double makespan = 0;
  std::vector<Rank> ranks;
};

/// Reads "measured": {"timeline": {"step", "makespan", "ranks": [{"rank", "place", "actions":
/// [["F0.0", begin, ready, end], ...]}]}} of a profile. Refused unless every place is below
/// `numPlaces`.
llvm::Expected<MeasuredStep> readMeasured(llvm::StringRef path, unsigned numPlaces);

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_MEASURED_H
