//===- SessionImpl.h - the implementation of a session ----------------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
#define CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H

#include "runtime/session/Losses.h"
#include "runtime/step/StepRunner.h"

namespace cleave::runtime {

/// Makes what the steps of a session share, chooses the runner of its steps, and finds values by
/// name for callers.
class SessionImpl {
public:
  static llvm::Expected<std::unique_ptr<SessionImpl>> create(const Program &program,
                                                             const SessionOptions &options);

  llvm::Error setLossSeeds(llvm::ArrayRef<double> seeds);
  /// An error where the microbatches of a step count differently, and their shares are not set.
  llvm::Error checkLossSeeds() const;
  llvm::Error runUpdate(int64_t step);
  llvm::Error runStep(int64_t step, MicrobatchCallback fill, MicrobatchCallback done);
  llvm::Error setLearningRate(int64_t group, double rate);
  llvm::Error setLossScale(const LossScale &scale);
  llvm::Error swapAverages();

  // Values by name, as Session has them.
  llvm::Expected<TensorRef> weight(llvm::StringRef name);
  llvm::Expected<TensorRef> optimizerState(llvm::StringRef parameter, llvm::StringRef slot);
  llvm::Expected<TensorRef> input(llvm::StringRef name);
  llvm::Expected<ConstTensorRef> result(llvm::StringRef fileName);
  std::vector<ConstTensorRef> keptOutputs(llvm::StringRef fileName);
  /// Where a weight or optimizer state of this rank is kept, by its file name; null for others.
  at::Tensor *findState(llvm::StringRef fileName) { return stateFiles.lookup(fileName); }

  StepContext context;
  std::unique_ptr<StepRunner> runner;
  Losses losses;
  /// Why steps are not recorded as graphs though options ask for it; else empty.
  std::string graphRefusal;
  /// Where the first schedule of a learning rate ends.
  std::optional<int64_t> lastStep;

private:
  SessionImpl(const Program &program, const SessionOptions &options)
      : context(program, options), losses(context) {}

  // Creation, in this order.
  llvm::Error connect();
  llvm::Error connectGroups();
  llvm::Error findKernels();
  llvm::Error prepare();
  llvm::Error makeBuckets();
  llvm::Error makeRunner();

  llvm::Error checkUpdate(int64_t step) const;
  /// Has the step draw its random numbers where the process's generator stands, and leaves that
  /// where they end. May throw.
  void takeGenerator(int64_t step);
  void leaveGenerator(int64_t step);
  /// A tensor of `list`; an error with `what` if there is none.
  llvm::Expected<at::Tensor *> find(std::vector<at::Tensor> &list, PlaceIndex::Index index,
                                    bool isHere, const llvm::Twine &what);
  llvm::Expected<TensorRef> viewState(llvm::Expected<at::Tensor *> tensor);

  /// Weights and optimizer states by file name.
  llvm::StringMap<at::Tensor *> stateFiles;
  /// The bucket in which a gradient lies, by file name, and where in it.
  llvm::StringMap<std::pair<Bucket *, size_t>> bucketMembers;
  /// Whether the last step failed, so that values may be lost.
  bool hasFailed = false;
  /// What `result` returned last, where it is not state.
  at::Tensor shown;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_SESSIONIMPL_H
