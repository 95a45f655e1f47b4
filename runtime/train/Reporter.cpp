//===- Reporter.cpp - a step's numbers to all who asked -------------------===//

#include "runtime/train/Reporter.h"
#include "runtime/io/Files.h"
#include "runtime/io/TerminalLine.h"
#include <cmath>
#include <unistd.h>

using namespace cleave::runtime;

llvm::Expected<std::unique_ptr<Reporter>> Reporter::open(const TrainOptions &options, int rank) {
  std::unique_ptr<Reporter> reporter(new Reporter(options));
  if (rank != 0)
    return reporter;
  reporter->isFirst = true;
  if (!options.metrics.empty()) {
    auto file = MetricsFile::open(options.metrics);
    if (!file)
      return file.takeError();
    reporter->file = std::move(*file);
  }
  if (!options.tensorboard.empty())
    if (llvm::Error error = checkWritableDirectory(options.tensorboard))
      return error;
  reporter->talks = !options.quiet;
  if (reporter->talks)
    reporter->progress =
        std::make_unique<Progress>(stdout, ::isatty(STDOUT_FILENO) != 0, options.steps);
  return reporter;
}

llvm::Error Reporter::begin(int64_t completedSteps) {
  if (file)
    if (llvm::Error error = file->begin(completedSteps))
      return error;
  if (isFirst && !options.tensorboard.empty()) {
    auto opened = EventWriter::open(options.tensorboard);
    if (!opened)
      return opened.takeError();
    events = std::move(*opened);
  }
  return llvm::Error::success();
}

void Reporter::say(const std::string &line) {
  if (!talks)
    return;
  endTerminalLine();
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
    endTerminalLine();
    std::fprintf(stderr,
                 "warning: step %lld: the loss is %s (--stop-on-nan would end the run here)\n",
                 (long long)metrics.step, describeNonFinite(metrics.loss));
    warned = true;
  }
  return llvm::Error::success();
}
