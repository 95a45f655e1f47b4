//===- Reporter.h - a step's numbers to all who asked ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_REPORTER_H
#define CLEAVE_RUNTIME_TRAIN_REPORTER_H

#include "runtime/io/Metrics.h"
#include "runtime/train/Train.h"

namespace cleave::runtime {

/// Metrics file, TensorBoard, progress. On ranks other than 0 it does nothing.
class Reporter {
public:
  static llvm::Expected<std::unique_ptr<Reporter>> open(const TrainOptions &options, int rank,
                                                        int64_t completedSteps);
  /// Prints a line about the run, unless it is to be quiet.
  void say(const std::string &line);
  llvm::Error report(const StepMetrics &metrics);

private:
  Reporter() = default;
  std::unique_ptr<MetricsFile> file;
  std::unique_ptr<EventWriter> events;
  std::unique_ptr<Progress> progress;
  bool talks = false;
  bool isFirst = true;
  bool warned = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_REPORTER_H
