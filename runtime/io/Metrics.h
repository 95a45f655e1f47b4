//===- Metrics.h - what a run reports about its steps ------------*- C++ -*-===//
//
// A step's numbers go to a file of JSON lines, to TensorBoard, and to the terminal.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_METRICS_H
#define CLEAVE_RUNTIME_IO_METRICS_H

#include "runtime/io/Error.h"
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace cleave::runtime {

struct StepMetrics {
  /// Counted from 1.
  int64_t step = 0;
  double loss = 0;
  double tokensPerSecond = 0;
  double milliseconds = 0;
  /// Of a lowered program: most bytes of tensors in the step, and of what ops use inside.
  std::optional<int64_t> tensorBytes, workspaceBytes;
};

/// "nan", "inf" or "-inf" for a loss that is not finite; a NaN's sign means nothing.
const char *describeNonFinite(double loss);

/// Appends a line a step to a file of JSON lines: step, loss, tokens_per_s, ms, and where they are
/// known memory_bytes, workspace_bytes. A loss that is not
/// finite is null, since JSON has no such numbers. Finite losses are written so that they read
/// back bit for bit.
class MetricsFile {
public:
  /// With `completedSteps` = 0 the file starts empty. A resumed run keeps the lines up to that step
  /// and drops later ones, and a line cut off by a crash: their steps will run again.
  static llvm::Expected<std::unique_ptr<MetricsFile>> open(llvm::StringRef path,
                                                           int64_t completedSteps);
  ~MetricsFile();
  llvm::Error write(const StepMetrics &metrics);

private:
  MetricsFile() = default;
  std::string path;
  std::FILE *stream = nullptr;
};

/// Writes scalars as a TensorBoard event file: TFRecord frames around Event protobufs.
class EventWriter {
public:
  /// Creates a new event file in `directory`, which is created if need be.
  static llvm::Expected<std::unique_ptr<EventWriter>> open(llvm::StringRef directory);
  ~EventWriter();
  llvm::Error write(llvm::StringRef tag, int64_t step, double value);
  /// The tags `train/loss`, `speed/tokens_per_s`, `speed/step_ms`.
  llvm::Error write(const StepMetrics &metrics);

private:
  EventWriter() = default;
  llvm::Error writeRecord(llvm::StringRef event);
  std::string path;
  std::FILE *stream = nullptr;
};

/// One line on a terminal, rewritten after every step; on anything else a line every few seconds
/// and for the first and the last step.
class Progress {
public:
  Progress(std::FILE *stream, bool isTerminal, int64_t totalSteps);
  /// Ends the line.
  ~Progress();
  void update(const StepMetrics &metrics);
  /// `step 20/100  loss 3.1416  12,345 tokens/s  ETA 1:05`; the time left is
  /// `secondsPerStep` times the steps left.
  static std::string format(const StepMetrics &metrics, int64_t totalSteps, double secondsPerStep);

private:
  using Clock = std::chrono::steady_clock;
  std::FILE *stream;
  bool isTerminal;
  int64_t totalSteps;
  /// Moving average; 0 before the first step.
  double secondsPerStep = 0;
  Clock::time_point lastLine;
  bool first = true;
  size_t width = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_METRICS_H
