//===- Status.cpp - a file that says how a run is doing -------------------===//

#include "runtime/train/Status.h"
#include "runtime/environment/Environment.h"
#include "runtime/io/OutputFile.h"
#include "runtime/io/TerminalLine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstdio>
#include <unistd.h>

using namespace cleave::runtime;
namespace json = llvm::json;
using namespace std::chrono_literals;

static double secondsNow() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

static json::Value toJson(double number) {
  return std::isfinite(number) ? json::Value(number) : json::Value(nullptr);
}

//===----------------------------------------------------------------------===//
// Curves
//===----------------------------------------------------------------------===//

void Status::Curve::add(int64_t step, double loss) {
  constexpr size_t kMost = 400;
  if (!points.empty() && ++skipped < stride)
    return;
  skipped = 0;
  points.emplace_back(step, loss);
  if (points.size() < kMost)
    return;
  stride *= 2;
  for (size_t i = 0; 2 * i < points.size(); ++i)
    points[i] = points[2 * i];
  points.resize((points.size() + 1) / 2);
}

json::Array Status::Curve::toJson() const {
  json::Array array;
  for (auto [step, loss] : points)
    array.push_back(json::Array{step, ::toJson(loss)});
  return array;
}

//===----------------------------------------------------------------------===//
// Beginning and end
//===----------------------------------------------------------------------===//

llvm::Expected<std::unique_ptr<Status>> Status::open(llvm::StringRef path, llvm::StringRef program,
                                                     int64_t steps, Communicator &world) {
  std::unique_ptr<Status> status(new Status(path, program, steps, world));
  std::string mine = llvm::formatv("{0} {1}", ::getpid(), getHostName()).str();
  llvm::Expected<std::vector<std::string>> all = world.allGatherBytes(mine, "the status");
  if (!all)
    return all.takeError();
  for (llvm::StringRef text : *all) {
    auto [process, host] = text.split(' ');
    Rank &rank = status->ranks.emplace_back();
    process.getAsInteger(10, rank.process);
    rank.host = host.str();
  }
  // Dropped again: what is there stays until the run begins.
  if (world.rank() == 0)
    if (llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path); !file)
      return file.takeError();
  return status;
}

void Status::begin(int64_t completed) {
  if (world.rank() != 0)
    return;
  startTime = secondsNow();
  firstStep = completed;
  state = "training";
  lastStep = Clock::now();
  thread = std::thread([this] { run(); });
}

Status::~Status() {
  end("failed");
}

void Status::end(llvm::StringRef how, llvm::StringRef why) {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    state = how.str();
    message = why.str();
    isEnding = true;
  }
  changed.notify_all();
  thread.join();
}

void Status::setState(llvm::StringRef now) {
  std::lock_guard lock(mutex);
  state = now.str();
}

void Status::report(const StepMetrics &metrics, const EvaluationHistory &history) {
  std::lock_guard lock(mutex);
  last = metrics;
  lastStep = Clock::now();
  evaluations = history;
  losses.add(metrics.step, metrics.loss);
  if (metrics.evalLoss) {
    lastEvaluation = metrics.evalLoss;
    evaluationLosses.add(metrics.step, *metrics.evalLoss);
  }
  hasNews = true;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

void Status::run() {
  std::unique_lock lock(mutex);
  for (bool isLast = false; !isLast;) {
    isLast = isEnding;
    // A step that takes longer than usual: a rank may be waiting for another.
    auto usual = std::chrono::duration<double, std::milli>(last ? last->milliseconds : 0);
    bool isLate = !isLast && Clock::now() - lastStep >
                                 std::max<Clock::duration>(
                                     2s, 2 * std::chrono::duration_cast<Clock::duration>(usual));
    lock.unlock();
    if (llvm::Error error = write(compose(isLate))) {
      // The run is worth more than news of it.
      endTerminalLine();
      std::fprintf(stderr, "warning: %s\n", llvm::toString(std::move(error)).c_str());
      return;
    }
    lock.lock();
    if (!isLast)
      changed.wait_for(lock, 1s, [&] { return isEnding; });
  }
}

std::string Status::compose(bool asks) {
  std::vector<RankPosition> positions;
  if (asks)
    positions = world.askPositions(500ms);
  std::lock_guard lock(mutex);
  json::Array rows;
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    json::Object row{{"rank", int64_t(index)}, {"host", rank.host}, {"pid", rank.process}};
    if (index < positions.size()) {
      const RankPosition &position = positions[index];
      row["responds"] = position.responds;
      if (!position.operation.empty())
        row["operation"] = position.operation;
      json::Array others;
      for (int other : position.waitsFor)
        others.push_back(other);
      row["waits_for"] = std::move(others);
    }
    rows.push_back(std::move(row));
  }
  json::Object object{
      {"version", 1},
      {"program", program},
      {"state", state},
      {"started", startTime},
      {"updated", secondsNow()},
      {"step", last ? last->step : firstStep},
      {"steps", steps},
      {"seconds_in_step", std::chrono::duration<double>(Clock::now() - lastStep).count()},
      {"losses", losses.toJson()},
      {"eval_losses", evaluationLosses.toJson()},
      {"ranks", std::move(rows)}};
  if (!message.empty())
    object["message"] = json::fixUTF8(message);
  if (last) {
    object["loss"] = ::toJson(last->loss);
    object["ms"] = last->milliseconds;
    object["tokens_per_s"] = ::toJson(last->tokensPerSecond);
    json::Array rates;
    for (double rate : last->learningRates)
      rates.push_back(::toJson(rate));
    object["lr"] = std::move(rates);
    object["remaining_s"] = double(steps - last->step) * last->milliseconds * 1e-3;
    if (last->gradientNorm)
      object["gradient_norm"] = ::toJson(*last->gradientNorm);
    if (last->lossScale)
      object["loss_scale"] = ::toJson(*last->lossScale);
    if (last->skippedSteps)
      object["skipped_steps"] = *last->skippedSteps;
    if (last->utilization)
      object["mfu"] = *last->utilization;
    if (last->tensorBytes)
      object["memory_bytes"] = *last->tensorBytes;
  }
  if (lastEvaluation)
    object["eval_loss"] = ::toJson(*lastEvaluation);
  if (evaluations.best)
    object["best"] = json::Object{{"step", evaluations.bestStep}, {"eval_loss", *evaluations.best}};
  return llvm::formatv("{0:2}\n", json::Value(std::move(object))).str();
}

llvm::Error Status::write(const std::string &text) {
  llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  if (llvm::Error error = (*file)->write(llvm::StringRef(text)))
    return error;
  return (*file)->commit();
}
