//===- Progress.h - how far a run is, for who watches it ---------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_IO_PROGRESS_H
#define CLEAVE_RUNTIME_IO_PROGRESS_H

#include "runtime/io/Metrics.h"
#include <chrono>
#include <cstdio>

namespace cleave::runtime {

/// One line on a terminal, rewritten after every step and cut to the terminal's width; on anything
/// else a line every few seconds, for the first and the last step, and for evaluations.
class Progress {
public:
  Progress(std::FILE *stream, bool isTerminal, int64_t totalSteps);
  /// Ends the line.
  ~Progress();
  void update(const StepMetrics &metrics);
  /// `step 20/100  loss 3.1416  eval 3.2  lr 0.001  norm 1.25  mfu 41.2%  12,345 tokens/s
  /// ETA 1:05`; the time left is `secondsPerStep` times the steps left.
  static std::string format(const StepMetrics &metrics, int64_t totalSteps, double secondsPerStep);
  /// As much of `line` as `columns` show; the last one stays free, since some terminals begin a new
  /// line once it is written.
  static llvm::StringRef cut(llvm::StringRef line, unsigned columns);

private:
  using Clock = std::chrono::steady_clock;
  std::FILE *stream;
  bool isTerminal;
  int64_t totalSteps;
  /// Moving average; 0 before the first step.
  double secondsPerStep = 0;
  Clock::time_point lastLine;
  bool first = true;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_PROGRESS_H
