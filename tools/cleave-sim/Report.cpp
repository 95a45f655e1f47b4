// The JSON and the text report.
#include "StepReport.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

#include <algorithm>
#include <cmath>

using namespace cleave;
using namespace cleave::sim;

double Run::boundRate() const {
  double minimum =
      metrics.busy.empty() ? 0 : *std::max_element(metrics.busy.begin(), metrics.busy.end());
  return bound && bound->largestSpan > 0 ? std::max(0.0, 1 - minimum / bound->largestSpan) : 0;
}

static llvm::json::Array toArray(llvm::ArrayRef<double> values) {
  llvm::json::Array array;
  for (double value : values)
    array.push_back(value);
  return array;
}

static llvm::json::Object toObject(const Run &run) {
  const simulate::Metrics &metrics = run.metrics;
  const schedule::Topology &topology = run.program.topology;
  llvm::json::Object object{{"schedule", run.name},
                            {"ranks", topology.numRanks()},
                            {"stages", topology.numStages()},
                            {"microbatches", run.program.numMicrobatches},
                            {"topology", schedule::getStyleName(topology.style())},
                            {"makespan", metrics.makespan},
                            {"bubble_rate", metrics.bubbleRate},
                            {"largest_span", metrics.largestSpan},
                            {"bubble_rate_largest_span", metrics.largestSpanBubbleRate},
                            {"exposed_communication", toArray(metrics.exposedCommunication)},
                            {"peak_memory", toArray(metrics.peakMemory)}};
  if (run.step)
    object["step"] = toJSON(*run.step);
  if (run.measured)
    object["measured_makespan"] = run.measured->makespan;
  if (std::isfinite(run.memoryLimit)) {
    object["memory_limit"] = run.memoryLimit;
    object["fits"] = run.fits();
  }
  if (run.searchSeconds) {
    object["search_seconds"] = *run.searchSeconds;
    object["found_by"] = run.origin;
  }
  if (run.bound)
    object["lower_bound"] = llvm::json::Object{{"makespan", run.bound->makespan},
                                               {"largest_span", run.bound->largestSpan},
                                               {"bubble_rate_largest_span", run.boundRate()}};
  return object;
}

void sim::printJSON(llvm::ArrayRef<Run> runs, bool compare, llvm::raw_ostream &os) {
  llvm::json::Array array;
  for (const Run &run : runs)
    array.push_back(toObject(run));
  if (compare)
    os << llvm::formatv("{0:2}\n",
                        llvm::json::Value(llvm::json::Object{{"schedules", std::move(array)}}));
  else
    os << llvm::formatv("{0:2}\n", array.front());
}

static void printTable(llvm::ArrayRef<Run> runs, llvm::raw_ostream &os) {
  constexpr const char *line = "{0,-26} {1,7} {2,12} {3,8} {4,13} {5,13} {6,12} {7,6}\n";
  os << llvm::formatv(line, "schedule", "chunks", "makespan", "bubble", "bubble (span)",
                      "exposed comm", "peak memory", "fits");
  for (const Run &run : runs) {
    const schedule::Topology &topology = run.program.topology;
    double exposed = 0;
    for (double value : run.metrics.exposedCommunication)
      exposed = std::max(exposed, value);
    os << llvm::formatv(line, run.name, topology.numStages() / topology.numRanks(),
                        llvm::formatv("{0:F2}", run.metrics.makespan).str(),
                        llvm::formatv("{0:F4}", run.metrics.bubbleRate).str(),
                        llvm::formatv("{0:F4}", run.metrics.largestSpanBubbleRate).str(),
                        llvm::formatv("{0:F2}", exposed).str(),
                        llvm::formatv("{0:F2}", run.metrics.maxPeakMemory()).str(),
                        std::isfinite(run.memoryLimit) ? (run.fits() ? "yes" : "no") : "-");
  }
}

void sim::printText(llvm::ArrayRef<Run> runs, llvm::raw_ostream &os) {
  if (runs.size() > 1)
    return printTable(runs, os);
  const Run &run = runs.front();
  const simulate::Metrics &metrics = run.metrics;
  const schedule::Topology &topology = run.program.topology;
  os << llvm::formatv("{0}: {1} ranks, {2} stages ({3}), {4} microbatches\n", run.name,
                      topology.numRanks(), topology.numStages(),
                      schedule::getStyleName(topology.style()), run.program.numMicrobatches);
  os << llvm::formatv("makespan {0:F3}\n", metrics.makespan);
  if (run.measured)
    os << llvm::formatv("measured {0:F3} (step {1}): predicted {2:F1} % {3}\n",
                        run.measured->makespan, run.measured->step,
                        100 * std::abs(metrics.makespan / run.measured->makespan - 1),
                        metrics.makespan < run.measured->makespan ? "below" : "above");
  os << llvm::formatv("bubble_rate {0:F4}\n", metrics.bubbleRate);
  os << llvm::formatv("bubble_rate_largest_span {0:F4} (span {1:F3})\n",
                      metrics.largestSpanBubbleRate, metrics.largestSpan);
  if (run.bound)
    os << llvm::formatv("lower_bound makespan {0:F3}, largest span {1:F3} (bubble rate {2:F4})\n",
                        run.bound->makespan, run.bound->largestSpan, run.boundRate());
  if (run.searchSeconds)
    os << llvm::formatv("search_seconds {0:F1} (found by {1})\n", *run.searchSeconds, run.origin);
  auto printList = [&](llvm::StringRef name, llvm::ArrayRef<double> values) {
    os << name;
    for (double value : values)
      os << llvm::formatv(" {0:F2}", value);
    os << '\n';
  };
  printList("exposed_communication", metrics.exposedCommunication);
  printList("peak_memory", metrics.peakMemory);
  if (std::isfinite(run.memoryLimit))
    os << llvm::formatv("memory_limit {0:F2}: {1}\n", run.memoryLimit,
                        run.fits() ? "fits" : "does not fit");
  if (run.step)
    printText(*run.step, os);
}
