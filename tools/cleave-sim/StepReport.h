// A whole step of a program on a cluster: what --cluster asks for, and the forms of its report.

#ifndef CLEAVE_TOOLS_CLEAVE_SIM_STEPREPORT_H
#define CLEAVE_TOOLS_CLEAVE_SIM_STEPREPORT_H

#include "Report.h"

#include "lib/schedule/simulate/Step.h"

#include "llvm/Support/JSON.h"

namespace cleave::sim {

struct StepReport {
  cost::Cluster cluster;
  int64_t devices = 1;
  simulate::Step step;
  std::vector<simulate::Sensitivity> sensitivities;
  /// Seconds to read and verify the program, to look at its ops, and to predict the step once.
  double readSeconds = 0, measureSeconds = 0, predictSeconds = 0;
};

/// The cluster that a file describes, or one with that name in the folder of --devices.
llvm::Expected<cost::Cluster> readCluster(llvm::StringRef fileOrName);

/// Predicts the step that a run simulates. Fails if it needs more memory than a device has.
llvm::Expected<StepReport> makeStepReport(const cost::Cluster &cluster,
                                          const simulate::ProgramWork &program, const Run &run,
                                          const simulate::RunOptions &options);

llvm::json::Object toJSON(const StepReport &report);
void printText(const StepReport &report, llvm::raw_ostream &os);

} // namespace cleave::sim

#endif // CLEAVE_TOOLS_CLEAVE_SIM_STEPREPORT_H
