//===- Metrics.cpp - JSON lines and progress ------------------------------===//

#include "runtime/io/Metrics.h"
#include "runtime/io/Files.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include <charconv>
#include <cmath>

using namespace cleave::runtime;

const char *cleave::runtime::describeNonFinite(double loss) {
  return std::isnan(loss) ? "nan" : loss > 0 ? "inf" : "-inf";
}

//===----------------------------------------------------------------------===//
// JSON lines
//===----------------------------------------------------------------------===//

/// The shortest decimal that reads back as `value`.
static std::string formatNumber(double value) {
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

llvm::Expected<std::unique_ptr<MetricsFile>> MetricsFile::open(llvm::StringRef path,
                                                               int64_t completedSteps) {
  std::unique_ptr<MetricsFile> metrics(new MetricsFile);
  metrics->path = path.str();
  if (completedSteps > 0 && llvm::sys::fs::exists(path)) {
    llvm::Expected<std::string> kept = keepLines(path, completedSteps);
    if (!kept)
      return kept.takeError();
    llvm::Expected<std::unique_ptr<AtomicFile>> file = AtomicFile::create(path);
    if (!file)
      return file.takeError();
    if (llvm::Error error = (*file)->write(llvm::StringRef(*kept)))
      return error;
    if (llvm::Error error = (*file)->commit())
      return error;
  }
  metrics->stream = std::fopen(metrics->path.c_str(), completedSteps > 0 ? "ae" : "we");
  if (!metrics->stream)
    return makeSystemError(path, "write");
  return metrics;
}

MetricsFile::~MetricsFile() {
  if (stream)
    std::fclose(stream);
}

llvm::Error MetricsFile::write(const StepMetrics &metrics) {
  std::string line =
      llvm::formatv("{{\"step\": {0}, \"loss\": {1}, \"tokens_per_s\": {2}, \"ms\": {3}",
                    metrics.step, formatNumber(metrics.loss),
                    formatNumber(std::round(metrics.tokensPerSecond * 10) / 10),
                    formatNumber(std::round(metrics.milliseconds * 1000) / 1000))
          .str();
  if (metrics.tensorBytes)
    line += llvm::formatv(", \"memory_bytes\": {0}", *metrics.tensorBytes);
  if (metrics.workspaceBytes)
    line += llvm::formatv(", \"workspace_bytes\": {0}", *metrics.workspaceBytes);
  line += "}\n";
  if (std::fwrite(line.data(), 1, line.size(), stream) != line.size() || std::fflush(stream) != 0)
    return makeSystemError(path, "write");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

Progress::Progress(std::FILE *stream, bool isTerminal, int64_t totalSteps)
    : stream(stream), isTerminal(isTerminal), totalSteps(totalSteps), lastLine(Clock::now()) {}

Progress::~Progress() {
  if (isTerminal && width > 0)
    std::fputc('\n', stream);
}

std::string Progress::format(const StepMetrics &metrics, int64_t totalSteps,
                             double secondsPerStep) {
  int64_t left = std::llround((totalSteps - metrics.step) * secondsPerStep);
  char buffer[32];
  if (left >= 3600)
    std::snprintf(buffer, sizeof buffer, "%lld:%02lld:%02lld", (long long)left / 3600,
                  (long long)left / 60 % 60, (long long)left % 60);
  else
    std::snprintf(buffer, sizeof buffer, "%lld:%02lld", (long long)left / 60, (long long)left % 60);
  std::string loss = std::isfinite(metrics.loss) ? llvm::formatv("{0:F4}", metrics.loss).str()
                                                 : describeNonFinite(metrics.loss);
  return llvm::formatv("step {0}/{1}  loss {2}  {3:N} tokens/s  ETA {4}", metrics.step, totalSteps,
                       loss, uint64_t(std::llround(metrics.tokensPerSecond)), buffer)
      .str();
}

void Progress::update(const StepMetrics &metrics) {
  double seconds = metrics.milliseconds / 1000;
  secondsPerStep = first ? seconds : 0.9 * secondsPerStep + 0.1 * seconds;
  std::string line = format(metrics, totalSteps, secondsPerStep);
  if (isTerminal) {
    // Spaces overwrite what a longer line before left.
    std::fprintf(stream, "\r%-*s", int(width), line.c_str());
    width = line.size();
    std::fflush(stream);
  } else if (first || metrics.step >= totalSteps ||
             Clock::now() - lastLine >= std::chrono::seconds(5)) {
    std::fprintf(stream, "%s\n", line.c_str());
    std::fflush(stream);
    lastLine = Clock::now();
  }
  first = false;
}
