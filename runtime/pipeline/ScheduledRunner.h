//===- ScheduledRunner.h - runs a rank's part of a schedule --------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PIPELINE_SCHEDULEDRUNNER_H
#define CLEAVE_RUNTIME_PIPELINE_SCHEDULEDRUNNER_H

#include "runtime/pipeline/StageTransfers.h"
#include "runtime/step/StepContext.h"
#include "runtime/step/StepRunner.h"

namespace cleave::runtime {

/// Steps through a rank's compiled list: starts transfers where it says so and waits for them where
/// their values are used. The context has the state; every microbatch in flight has its own.
class ScheduledRunner : public StepRunner {
public:
  /// `context` has the bound functions of this rank's stages, and outlives the runner.
  static llvm::Expected<std::unique_ptr<ScheduledRunner>> create(StepContext &context);

  /// Fails: a schedule runs the microbatches of a step together.
  llvm::Error runMicrobatch(int64_t step, int64_t index) override;
  llvm::Error runMicrobatches(int64_t step, MicrobatchCallback fill,
                              MicrobatchCallback done) override;
  /// The updates that the list ends with. Afterwards tied parameters are equal on all ranks.
  llvm::Error runUpdate(int64_t step) override;
  llvm::Error shareWeights() override;

private:
  explicit ScheduledRunner(StepContext &context) : context(context) {}

  /// A parameter that stages on several ranks take.
  struct Tied {
    size_t weight;
    int owner;
    std::vector<int> places;
    std::string what;
  };
  /// A transfer in flight, for the observer.
  struct Started {
    const ScheduledAction *entry = nullptr;
    int64_t beginNs = 0;
  };

  llvm::Error bindCalled();
  void connectFunctions();
  void findTied();
  llvm::Error beginStep(int64_t step);
  llvm::Error run(const ScheduledAction &entry, MicrobatchCallback fill, MicrobatchCallback done);
  llvm::Error compute(const ScheduledAction &entry, MicrobatchCallback fill,
                      MicrobatchCallback done);
  llvm::Error takeInput(const ScheduledAction &entry);
  llvm::Error readInputs(const ScheduledAction &entry, MicrobatchCallback fill);
  llvm::Error send(const ScheduledAction &entry);
  llvm::Error finishSend(uint32_t number);
  llvm::Error finishSends();
  llvm::Error runOnce(const ScheduledAction &entry);
  llvm::Error sumStages(const ScheduledAction &entry);
  llvm::Error callFunction(const ScheduledAction &entry);
  llvm::Error callUser(const ScheduledAction &entry);
  void release(const ScheduledAction &entry);
  llvm::Error copyTied();

  llvm::Error describe(const ScheduledAction &entry, llvm::Error error) const;
  bool isObserved() const { return context.reporter.isOn(); }
  /// The steady clock if there is an observer, else 0.
  int64_t now() { return isObserved() ? context.reporter.now() : 0; }
  void observe(const ScheduledAction &entry, int64_t begin, int64_t ready, int64_t bytes = 0);

  StepContext &context;
  ActionList list;
  /// The ranks along the pipeline axis.
  RankGroup group;
  /// By index of the program's action functions; null where the list does not call it.
  std::vector<std::unique_ptr<BoundPhase>> called;
  std::unique_ptr<StageTransfers> transfers;
  /// By channel: where the values are in a microbatch's saved ones.
  std::vector<std::vector<size_t>> slots;
  /// By index of the list's sums: StepState's of the same name.
  std::vector<size_t> stageSums;
  /// By stage: what reshard frees.
  std::vector<std::vector<size_t>> unsharded;
  std::vector<MicrobatchState> states;
  std::vector<Tied> tied;
  std::vector<Started> sendsUnderWay, receivesUnderWay;
  int64_t step = 0;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PIPELINE_SCHEDULEDRUNNER_H
