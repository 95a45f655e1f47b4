// What cleave-sim has simulated, and the forms in which it reports it.

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_REPORT_H
#define CLEAVE_TOOLS_CLEAVE_SIM_REPORT_H

#include "Measured.h"

#include "lib/schedule/search/Auto.h"
#include "lib/schedule/simulate/Metrics.h"
#include "lib/schedule/simulate/ProgramCosts.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace cleave::sim {

struct StepReport;

/// One schedule with its simulation.
struct Run {
  std::string name;
  schedule::Schedule program;
  simulate::CostTable costs;
  /// What costs count; where they do not, any unit.
  bool isMilliseconds = false, isBytes = false;
  simulate::Timeline timeline;
  simulate::Metrics metrics;
  /// A step of a run by this schedule.
  std::optional<MeasuredStep> measured;
  /// Set for a search.
  std::optional<double> searchSeconds;
  std::optional<schedule::search::LowerBound> bound;
  std::string origin;
  /// The whole step, where a cluster was described.
  std::shared_ptr<const StepReport> step;
  /// By rank, its copies to and from the host; empty if the program has none, or without a cluster.
  std::vector<std::vector<simulate::HostCopy>> copies;
  /// Infinity where none is given.
  double memoryLimit = std::numeric_limits<double>::infinity();

  bool fits() const { return metrics.maxPeakMemory() <= memoryLimit * (1 + 1e-9); }
  /// The bubble rate that the bound on the largest span stands for.
  double boundRate() const;
};

void printJSON(llvm::ArrayRef<Run> runs, bool compare, llvm::raw_ostream &os);
/// One run as lines, several as a table.
void printText(llvm::ArrayRef<Run> runs, llvm::raw_ostream &os);
/// The Chrome trace format, which Perfetto opens; a cost unit is a millisecond there.
void printTrace(const Run &run, llvm::raw_ostream &os);
/// One page without external resources; of several runs, a table and the timeline of each.
void printHTML(llvm::ArrayRef<Run> runs, llvm::raw_ostream &os);

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_REPORT_H
