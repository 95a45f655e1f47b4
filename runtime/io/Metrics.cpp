//===- Metrics.cpp - a run's numbers as JSON lines ------------------------===//

#include "runtime/io/Metrics.h"
#include "runtime/io/Files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include <charconv>
#include <cmath>
#include <fcntl.h>
#include <unistd.h>

using namespace cleave::runtime;

const char *cleave::runtime::describeNonFinite(double loss) {
  return std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf";
}

std::string cleave::runtime::formatNumber(double value) {
  if (!std::isfinite(value))
    return "null";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

/// The lines of an earlier run up to `completedSteps`.
static llvm::Expected<std::string> keepLines(llvm::StringRef path, int64_t completedSteps) {
  llvm::Expected<std::unique_ptr<MappedFile>> file = MappedFile::open(path);
  if (!file)
    return file.takeError();
  std::string kept;
  llvm::StringRef rest = llvm::toStringRef((*file)->bytes());
  while (rest.contains('\n')) {
    auto [line, next] = rest.split('\n');
    rest = next;
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(line);
    const llvm::json::Object *object = value ? value->getAsObject() : nullptr;
    std::optional<int64_t> step = object ? object->getInteger("step") : std::nullopt;
    if (!value)
      llvm::consumeError(value.takeError());
    if (step && *step <= completedSteps)
      kept += line.str() + "\n";
  }
  return kept;
}

llvm::Expected<std::unique_ptr<MetricsFile>> MetricsFile::open(llvm::StringRef path) {
  llvm::Expected<OutputTarget> target = findOutputTarget(path);
  if (!target)
    return target.takeError();
  std::unique_ptr<MetricsFile> metrics(new MetricsFile);
  metrics->path = path.str();
  metrics->descriptor = target->descriptor;
  metrics->target = std::move(*target);
  if (metrics->target.isFile)
    if (llvm::Error error = metrics->openForAppending())
      return error;
  return metrics;
}

llvm::Error MetricsFile::openForAppending() {
  if (descriptor >= 0)
    ::close(descriptor);
  descriptor = ::open(target.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return descriptor < 0 ? makeSystemError(path, "write") : llvm::Error::success();
}

llvm::Error MetricsFile::begin(int64_t completedSteps) {
  hasBegun = true;
  if (!target.isFile)
    return llvm::Error::success();
  if (completedSteps == 0)
    return ::ftruncate(descriptor, 0) == 0 ? llvm::Error::success()
                                           : makeSystemError(path, "write");
  llvm::Expected<std::string> kept = keepLines(target.path, completedSteps);
  if (!kept)
    return kept.takeError();
  llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(target.path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = (*file)->write(llvm::StringRef(*kept)))
    return error;
  if (llvm::Error error = (*file)->commit())
    return error;
  return openForAppending();
}

MetricsFile::~MetricsFile() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  if (!hasBegun && target.isFile && !target.exists)
    ::unlink(target.path.c_str());
}

llvm::Error MetricsFile::write(const StepMetrics &metrics) {
  std::string line =
      llvm::formatv("{{\"step\": {0}, \"loss\": {1}, \"tokens_per_s\": {2}, \"ms\": {3}",
                    metrics.step, formatNumber(metrics.loss),
                    formatNumber(std::round(metrics.tokensPerSecond * 10) / 10),
                    formatNumber(std::round(metrics.milliseconds * 1000) / 1000))
          .str();
  if (!metrics.program.empty())
    line += llvm::formatv(", \"program\": {0}", llvm::json::Value(metrics.program)).str();
  if (metrics.learningRates.size() == 1)
    line += ", \"lr\": " + formatNumber(metrics.learningRates.front());
  else if (!metrics.learningRates.empty())
    line += ", \"lr\": [" + llvm::join(llvm::map_range(metrics.learningRates, formatNumber), ", ") +
            "]";
  if (metrics.gradientNorm)
    line += ", \"gradient_norm\": " + formatNumber(*metrics.gradientNorm);
  if (metrics.lossScale)
    line += ", \"loss_scale\": " + formatNumber(*metrics.lossScale);
  if (metrics.skippedSteps)
    line += ", \"skipped_steps\": " + std::to_string(*metrics.skippedSteps);
  if (metrics.evalLoss)
    line += ", \"eval_loss\": " + formatNumber(*metrics.evalLoss);
  if (metrics.utilization)
    line += ", \"mfu\": " + formatNumber(*metrics.utilization);
  if (metrics.tensorBytes)
    line += llvm::formatv(", \"memory_bytes\": {0}", *metrics.tensorBytes);
  if (metrics.workspaceBytes)
    line += llvm::formatv(", \"workspace_bytes\": {0}", *metrics.workspaceBytes);
  if (metrics.hostBytes)
    line += llvm::formatv(", \"host_bytes\": {0}", *metrics.hostBytes);
  line += "}\n";
  return writeAll(descriptor, llvm::arrayRefFromStringRef(line), path);
}
