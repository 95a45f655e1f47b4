//===- Reporter.cpp - a step's numbers to all who asked -------------------===//

#include "runtime/train/Reporter.h"
#include <cmath>
#include <unistd.h>

using namespace cleave::runtime;

llvm::Expected<std::unique_ptr<Reporter>> Reporter::open(const TrainOptions &options, int rank,
                                                         int64_t completedSteps) {
  std::unique_ptr<Reporter> reporter(new Reporter);
  if (rank != 0)
    return reporter;
  if (!options.metrics.empty()) {
    auto file = MetricsFile::open(options.metrics, completedSteps);
    if (!file)
      return file.takeError();
    reporter->file = std::move(*file);
  }
  if (!options.tensorboard.empty()) {
    auto events = EventWriter::open(options.tensorboard);
    if (!events)
      return events.takeError();
    reporter->events = std::move(*events);
  }
  reporter->talks = !options.quiet;
  if (reporter->talks)
    reporter->progress =
        std::make_unique<Progress>(stdout, ::isatty(STDOUT_FILENO) != 0, options.steps);
  return reporter;
}

void Reporter::say(const std::string &line) {
  if (!talks)
    return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

llvm::Error Reporter::report(const StepMetrics &metrics) {
  if (file)
    if (llvm::Error error = file->write(metrics))
      return error;
  if (events)
    if (llvm::Error error = events->write(metrics))
      return error;
  if (progress)
    progress->update(metrics);
  if ((file || events || progress) && !std::isfinite(metrics.loss) && !warned) {
    std::fprintf(stderr,
                 "warning: step %lld: the loss is %s (--stop-on-nan would end the run here)\n",
                 (long long)metrics.step, describeNonFinite(metrics.loss));
    warned = true;
  }
  return llvm::Error::success();
}
