//===- Metrics.h - what a run reports about its steps ------------*- C++ -*-===//
//
// A step's numbers go to a file of JSON lines and to TensorBoard; Progress.h shows them.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_IO_METRICS_H
#define CLEAVE_RUNTIME_IO_METRICS_H

#include "runtime/io/OutputFile.h"
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

struct StepMetrics {
  /// Counted from 1.
  int64_t step = 0;
  double loss = 0;
  double tokensPerSecond = 0;
  double milliseconds = 0;
  /// The program that the step is of, where several take turns; else empty.
  std::string program;
  /// The rates of the parameter groups that differ, in the order of the program.
  std::vector<double> learningRates;
  /// The norm of all gradients together, before they are clipped; set if the program computes it.
  std::optional<double> gradientNorm;
  /// The scale of the loss in the step, and how many steps were skipped until now, this one
  /// included; set if the program scales its loss.
  std::optional<double> lossScale;
  std::optional<int64_t> skippedSteps;
  /// The loss over the evaluation set after the step; set if it was computed.
  std::optional<double> evalLoss;
  /// Floating-point operations of the step over those that the devices could have done; set if
  /// their peak is known.
  std::optional<double> utilization;
  /// Peak bytes of tensors in the step; and apart from it, in lowered programs, what ops use
  /// inside.
  std::optional<int64_t> tensorBytes, workspaceBytes;
  /// The same of values offloaded to the host's memory; set if the program offloads any.
  std::optional<int64_t> hostBytes;
};

/// "nan", "inf" or "-inf" for a loss that is not finite; a NaN's sign means nothing.
const char *describeNonFinite(double loss);

/// The shortest decimal that reads back as `value`; "null", as JSON has it, where it is not finite.
std::string formatNumber(double value);

/// Appends a line per step to a file of JSON lines: step, loss, tokens_per_s, ms, and where they
/// are known program, lr (a list where there are several), gradient_norm, loss_scale,
/// skipped_steps, eval_loss, mfu, memory_bytes, workspace_bytes. A loss that is not finite is null,
/// since JSON has no such numbers. Finite losses are written so that they read back bit for bit.
class MetricsFile {
public:
  /// Makes sure that the file can be written and changes nothing in it; `begin` must follow.
  static llvm::Expected<std::unique_ptr<MetricsFile>> open(llvm::StringRef path);
  /// With `completedSteps` = 0 the file starts empty. A resumed run keeps the lines up to that step
  /// and drops later ones, and a line cut off by a crash: their steps will run again.
  llvm::Error begin(int64_t completedSteps);
  /// Removes a file that `open` has made and no run has begun.
  ~MetricsFile();
  llvm::Error write(const StepMetrics &metrics);

private:
  MetricsFile() = default;
  llvm::Error openForAppending();
  std::string path;
  OutputTarget target;
  int descriptor = -1;
  bool hasBegun = false;
};

/// Writes scalars as a TensorBoard event file: TFRecord frames around Event protobufs.
class EventWriter {
public:
  /// Creates a new event file in `directory`, which is created if need be.
  static llvm::Expected<std::unique_ptr<EventWriter>> open(llvm::StringRef directory);
  ~EventWriter();
  llvm::Error write(llvm::StringRef tag, int64_t step, double value);
  /// The tags `train/loss`, `speed/tokens_per_s`, `speed/step_ms`; where they are known `train/lr`
  /// (`train/lr/0` and so on for several), `train/gradient_norm`, `train/loss_scale`,
  /// `train/skipped_steps`, `eval/loss`, `speed/mfu` and `memory/bytes`.
  llvm::Error write(const StepMetrics &metrics);

private:
  EventWriter() = default;
  llvm::Error writeRecord(llvm::StringRef event);
  std::string path;
  std::FILE *stream = nullptr;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_IO_METRICS_H
