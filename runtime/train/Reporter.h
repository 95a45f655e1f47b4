//===- Reporter.h - a step's numbers to all who asked ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_REPORTER_H
#define CLEAVE_RUNTIME_TRAIN_REPORTER_H

#include "runtime/io/Progress.h"
#include "runtime/train/Train.h"

namespace cleave::runtime {

/// Metrics file, TensorBoard, progress. On ranks other than 0 it does nothing.
class Reporter {
public:
  /// Makes sure that the files can be written and changes nothing in them.
  static llvm::Expected<std::unique_ptr<Reporter>> open(const TrainOptions &options, int rank);
  /// Begins the report of a run that has `completedSteps` behind it.
  llvm::Error begin(int64_t completedSteps);
  /// Prints a line about the run, unless it is to be quiet.
  void say(const std::string &line);
  llvm::Error report(const StepMetrics &metrics);

private:
  explicit Reporter(const TrainOptions &options) : options(options) {}
  const TrainOptions &options;
  std::unique_ptr<MetricsFile> file;
  std::unique_ptr<EventWriter> events;
  std::unique_ptr<Progress> progress;
  bool isFirst = false; ///< the rank that reports
  bool talks = false;
  bool warned = false;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_REPORTER_H
