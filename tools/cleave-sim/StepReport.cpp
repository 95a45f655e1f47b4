// The report of a whole step.
#include "StepReport.h"

#include "PredictRows.h"

#include "lib/cost/Installed.h"
#include "lib/support/Error.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <chrono>

using namespace cleave;
using namespace cleave::sim;
using cleave::makeError;

static constexpr double gib = 1024.0 * 1024 * 1024;

llvm::Expected<cost::Cluster> sim::readCluster(llvm::StringRef fileOrName) {
  return cost::readNamedCluster(fileOrName, findDevices());
}

static llvm::Error checkMemory(const StepReport &report) {
  for (auto [rank, memory] : llvm::enumerate(report.step.memory))
    if (memory.sum() > report.cluster.device.memory)
      return makeError(
          "{0}: the program needs more memory than a device has: expected at most {1:F2} GiB, "
          "found "
          "{2:F2} GiB at place {3} of the pipeline: parameters {4:F2}, gradients {5:F2}, optimizer "
          "{6:F2}, activations {7:F2}, temporary values {8:F2}, messages {9:F2}, others {10:F2}",
          report.cluster.name, report.cluster.device.memory / gib, memory.sum() / gib, rank,
          memory.state.parameters / gib, memory.state.gradients / gib, memory.state.optimizer / gib,
          memory.activations / gib, memory.work / gib, memory.messages / gib,
          memory.state.others / gib);
  double most = report.step.maxHostMemory();
  if (report.cluster.hostMemory > 0 && most > report.cluster.hostMemory)
    return makeError("{0}: the program copies more to host memory than a node has for each of its "
                     "devices: expected at most {1:F2} GiB, found {2:F2} GiB",
                     report.cluster.name, report.cluster.hostMemory / gib, most / gib);
  return llvm::Error::success();
}

llvm::Expected<StepReport> sim::makeStepReport(const cost::Cluster &cluster,
                                               const simulate::ProgramWork &program, const Run &run,
                                               const simulate::RunOptions &options) {
  StepReport report;
  report.cluster = cluster;
  report.devices = program.devices;
  auto begin = std::chrono::steady_clock::now();
  auto step = simulate::predictStep(cluster, program, run.program, options);
  if (!step)
    return step.takeError();
  report.predictSeconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.step = std::move(*step);
  if (llvm::Error error = checkMemory(report))
    return std::move(error);
  auto sensitivities = simulate::findSensitivities(cluster, program, run.program, options);
  if (!sensitivities)
    return sensitivities.takeError();
  report.sensitivities = std::move(*sensitivities);
  return report;
}

static llvm::json::Object toJSON(const simulate::RankMemory &memory) {
  return llvm::json::Object{{"parameters", memory.state.parameters},
                            {"gradients", memory.state.gradients},
                            {"optimizer", memory.state.optimizer},
                            {"others", memory.state.others},
                            {"activations", memory.activations},
                            {"temporary", memory.work},
                            {"messages", memory.messages},
                            {"peak", memory.sum()},
                            {"host", memory.host}};
}

static llvm::json::Object toJSON(llvm::ArrayRef<simulate::Part> parts) {
  llvm::json::Object object;
  for (const simulate::Part &part : parts)
    object[part.name] = part.seconds;
  return object;
}

llvm::json::Object sim::toJSON(const StepReport &report) {
  const simulate::Step &step = report.step;
  // In their order: the largest first.
  llvm::json::Array sensitivities, ops;
  for (const simulate::Sensitivity &each : report.sensitivities)
    sensitivities.push_back(llvm::json::Object{{"of", each.name}, {"percent", each.percent}});
  for (const simulate::Part &part : step.ops)
    ops.push_back(llvm::json::Object{{"op", part.name}, {"seconds", part.seconds}});
  llvm::json::Object sent;
  for (const auto &[axes, bytes] : step.sent)
    sent[axes] = bytes;
  llvm::json::Array memory;
  for (const simulate::RankMemory &rank : step.memory)
    memory.push_back(::toJSON(rank));
  llvm::json::Object object{{"cluster", report.cluster.name},
                            {"devices", report.devices},
                            {"seconds", step.seconds},
                            {"interval", llvm::json::Array{step.lowest, step.highest}},
                            {"error", report.cluster.error},
                            {"mfu", step.mfu},
                            {"model_flops", step.flops},
                            {"tokens_per_second", step.tokensPerSecond},
                            {"examples_per_second", step.examplesPerSecond},
                            {"compute", step.compute},
                            {"bubble", step.bubble},
                            {"other", step.other},
                            {"exposed_communication", ::toJSON(step.exposed)},
                            {"exposed_copies", step.copies.exposed},
                            {"copy_seconds", step.copies.seconds},
                            {"copied_bytes", step.copies.bytes},
                            {"sent_bytes", std::move(sent)},
                            {"rank_flops", step.rankFlops},
                            {"saved_bytes", step.savedBytes},
                            {"ops", std::move(ops)},
                            {"memory", std::move(memory)},
                            {"device_memory", report.cluster.device.memory},
                            {"host_memory", report.cluster.hostMemory},
                            {"sensitivities", std::move(sensitivities)},
                            {"read_seconds", report.readSeconds},
                            {"measure_seconds", report.measureSeconds},
                            {"predict_seconds", report.predictSeconds}};
  if (!report.cluster.note.empty())
    object["note"] = report.cluster.note;
  return object;
}

void sim::printText(const StepReport &report, llvm::raw_ostream &os) {
  constexpr size_t most = 8;
  const simulate::Step &step = report.step;
  os << llvm::formatv("step {0:F4} s on {1} devices of {2}", step.seconds, report.devices,
                      report.cluster.name);
  if (report.cluster.error > 0)
    os << llvm::formatv(", {0:F4} to {1:F4} s by the error of two thirds of the measured runs",
                        step.lowest, step.highest);
  else
    os << "; no run on such a cluster was measured";
  os << '\n';
  if (!report.cluster.note.empty())
    os << "note " << report.cluster.note << '\n';
  os << llvm::formatv("mfu {0:F2} %, {1:F1} tokens/s, {2:F2} examples/s\n", 100 * step.mfu,
                      step.tokensPerSecond, step.examplesPerSecond);
  auto percent = [&](double seconds) { return 100 * seconds / std::max(step.seconds, 1e-30); };
  os << llvm::formatv("busiest rank: kernels {0:F1} %, bubbles {1:F1} %, other {2:F1} %",
                      percent(step.compute), percent(step.bubble), percent(step.other));
  for (const simulate::Part &part : step.exposed)
    os << llvm::formatv(", waits for {0} {1:F1} %", part.name, percent(part.seconds));
  if (step.copies.bytes > 0)
    os << llvm::formatv(", waits for copies {0:F1} % of {1:F1} %", percent(step.copies.exposed),
                        percent(step.copies.seconds));
  os << "\nops";
  for (const simulate::Part &part : llvm::ArrayRef(step.ops).take_front(most))
    os << llvm::formatv("{0} {1} {2:F1} %", &part == &step.ops.front() ? "" : ",", part.name,
                        percent(part.seconds));
  os << "\nhangs on";
  for (const auto &each : llvm::ArrayRef(report.sensitivities).take_front(most))
    os << llvm::formatv("{0} {1} {2:F3}", &each == &report.sensitivities.front() ? "" : ",",
                        each.name, each.percent);
  os << " (% of the step for 1 %)\n";
  for (auto [rank, memory] : llvm::enumerate(step.memory))
    os << llvm::formatv("memory of place {0}: {1:F3} of {2:F1} GiB: parameters {3:F3}, gradients "
                        "{4:F3}, optimizer {5:F3}, activations {6:F3}, temporary {7:F3}, "
                        "messages {8:F3}, others {9:F3}\n",
                        rank, memory.sum() / gib, report.cluster.device.memory / gib,
                        memory.state.parameters / gib, memory.state.gradients / gib,
                        memory.state.optimizer / gib, memory.activations / gib, memory.work / gib,
                        memory.messages / gib, memory.state.others / gib);
  if (step.maxHostMemory() > 0)
    for (auto [rank, memory] : llvm::enumerate(step.memory))
      os << llvm::formatv("host memory of place {0}: {1:F3} GiB\n", rank, memory.host / gib);
}
