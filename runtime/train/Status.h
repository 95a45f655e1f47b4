//===- Status.h - a file that says how a run is doing ------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_STATUS_H
#define CLEAVE_RUNTIME_TRAIN_STATUS_H

#include "runtime/comm/Communicator.h"
#include "runtime/io/EvaluationHistory.h"
#include "runtime/io/Metrics.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace cleave::runtime {

/// Keeps a small JSON file about a run up to date, a second behind at most; readers see the old
/// file or the whole new one. Where a step takes long, it says where each rank is and for whom it
/// waits. The first rank writes; a thread of its own, so that the file is kept while all ranks
/// wait.
class Status {
public:
  /// Makes sure that the file can be written. All ranks call it together.
  static llvm::Expected<std::unique_ptr<Status>> open(llvm::StringRef path, llvm::StringRef program,
                                                      int64_t steps, Communicator &world);
  /// Writes that the run has failed, unless it has ended.
  ~Status();

  /// Starts writing, after `completed` steps.
  void begin(int64_t completed);
  /// What the run does now: "training", "evaluating", "saving".
  void setState(llvm::StringRef state);
  /// A step has ended.
  void report(const StepMetrics &metrics, const EvaluationHistory &evaluations);
  /// Writes how the run has ended, "finished", "interrupted" or "failed", and stops.
  void end(llvm::StringRef state, llvm::StringRef message = "");

private:
  using Clock = std::chrono::steady_clock;
  /// Points of a curve: thinned, so that the file stays small however long the run is.
  class Curve {
  public:
    void add(int64_t step, double loss);
    llvm::json::Array toJson() const;

  private:
    std::vector<std::pair<int64_t, double>> points;
    size_t stride = 1, skipped = 0;
  };
  struct Rank {
    std::string host;
    int64_t process = 0;
  };

  Status(llvm::StringRef path, llvm::StringRef program, int64_t steps, Communicator &world)
      : path(path), program(program), steps(steps), world(world) {}
  void run();
  /// What the file says. Asks ranks where they are if the step takes long. Holds `mutex` in parts.
  std::string compose(bool asks);
  llvm::Error write(const std::string &text);

  std::string path, program;
  int64_t steps;
  Communicator &world;
  std::vector<Rank> ranks;

  std::mutex mutex;
  std::condition_variable changed;
  bool isEnding = false, hasNews = true;
  std::string state = "starting", message;
  double startTime = 0;
  int64_t firstStep = 0;
  Clock::time_point lastStep = Clock::now();
  std::optional<StepMetrics> last;
  std::optional<double> lastEvaluation;
  EvaluationHistory evaluations;
  Curve losses, evaluationLosses;
  std::thread thread;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_STATUS_H
