//===- Progress.cpp - how far a run is, for who watches it ----------------===//

#include "runtime/io/Progress.h"
#include "runtime/io/TerminalLine.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <iterator>
#include <sys/ioctl.h>

using namespace cleave::runtime;

Progress::Progress(std::FILE *stream, bool isTerminal, int64_t totalSteps)
    : stream(stream), isTerminal(isTerminal), totalSteps(totalSteps), lastLine(Clock::now()) {}

Progress::~Progress() {
  if (isTerminal)
    endTerminalLine();
}

/// For reading: few digits, and no zeros at their end.
static std::string formatShort(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

/// "1.5 GiB"
static std::string formatBytes(int64_t bytes) {
  static constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = double(bytes) / 1024;
  while (value >= 1000 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return llvm::formatv("{0:F1} {1}", value, units[unit]).str();
}

std::string Progress::format(const StepMetrics &metrics, int64_t totalSteps,
                             double secondsPerStep) {
  int64_t left = std::llround((totalSteps - metrics.step) * secondsPerStep);
  char time[32];
  if (left >= 3600)
    std::snprintf(time, sizeof time, "%lld:%02lld:%02lld", (long long)left / 3600,
                  (long long)left / 60 % 60, (long long)left % 60);
  else
    std::snprintf(time, sizeof time, "%lld:%02lld", (long long)left / 60, (long long)left % 60);
  auto formatLoss = [](double loss) {
    return std::isfinite(loss) ? llvm::formatv("{0:F4}", loss).str() : describeNonFinite(loss);
  };
  std::string line =
      llvm::formatv("step {0}/{1}  loss {2}", metrics.step, totalSteps, formatLoss(metrics.loss))
          .str();
  if (metrics.evalLoss)
    line += "  eval " + formatLoss(*metrics.evalLoss);
  if (!metrics.learningRates.empty())
    line += "  lr " + llvm::join(llvm::map_range(metrics.learningRates, formatShort), ", ");
  if (metrics.gradientNorm)
    line += "  norm " + formatShort(*metrics.gradientNorm);
  if (metrics.utilization)
    line += llvm::formatv("  mfu {0:P1}", *metrics.utilization).str();
  if (metrics.tensorBytes)
    line += "  memory " + formatBytes(*metrics.tensorBytes);
  return line + llvm::formatv("  {0:N} tokens/s  ETA {1}",
                              uint64_t(std::llround(metrics.tokensPerSecond)), time)
                    .str();
}

llvm::StringRef Progress::cut(llvm::StringRef line, unsigned columns) {
  return columns > 1 ? line.take_front(columns - 1) : line;
}

/// Columns of the terminal; 0 where it does not say.
static unsigned countColumns(std::FILE *stream) {
  struct winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void Progress::update(const StepMetrics &metrics) {
  double seconds = metrics.milliseconds / 1000;
  secondsPerStep = first ? seconds : 0.9 * secondsPerStep + 0.1 * seconds;
  std::string line = format(metrics, totalSteps, secondsPerStep);
  if (isTerminal) {
    // "Erase to the end" takes away what a longer line before left.
    llvm::StringRef shown = cut(line, countColumns(stream));
    std::fprintf(stream, "\r%.*s\x1b[K", int(shown.size()), shown.data());
    beginTerminalLine();
    std::fflush(stream);
  } else if (first || metrics.step >= totalSteps || metrics.evalLoss ||
             Clock::now() - lastLine >= std::chrono::seconds(5)) {
    std::fprintf(stream, "%s\n", line.c_str());
    std::fflush(stream);
    lastLine = Clock::now();
  }
  first = false;
}
