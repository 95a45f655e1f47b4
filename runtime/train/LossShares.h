//===- LossShares.h - how much of a step's loss each microbatch is -*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_TRAIN_LOSSSHARES_H
#define CLEAVE_RUNTIME_TRAIN_LOSSSHARES_H

#include "runtime/comm/Communicator.h"
#include "runtime/io/Data.h"
#include "runtime/session/CountedTargets.h"

namespace cleave::runtime {

/// The shares of a step's microbatches, on all ranks, in a program whose mean is over targets. They
/// are known before the step begins, since a backward starts from its microbatch's share: the
/// ranks read all of their targets first and tell each other how many count.
class LossShares {
public:
  /// Null where each microbatch counts the same.
  static llvm::Expected<std::unique_ptr<LossShares>> create(const Program &program,
                                                            const RankGrid &grid);

  /// Reads this rank's microbatches of a step, from 1, and gives the session their shares. All
  /// ranks call it together.
  llvm::Error begin(int64_t step, const DataSource &data, int64_t microbatches, Session &session,
                    Communicator &world);
  /// What `begin` has read.
  llvm::ArrayRef<HostTensor> batch(int64_t microbatch) const { return batches[microbatch]; }
  /// The share of a microbatch of a part of the step's batch.
  double share(int64_t part, int64_t microbatch) const {
    return shares[part * int64_t(batches.size()) + microbatch];
  }
  /// Whether no target of the step counts, so that it has no loss.
  bool isEmpty() const;

private:
  explicit LossShares(CountedTargets targets) : targets(std::move(targets)) {}

  /// The targets in each microbatch of all parts, from those of this one.
  llvm::Expected<std::vector<int64_t>> gather(llvm::ArrayRef<int64_t> mine, Session::BatchPart part,
                                              Communicator &world) const;

  CountedTargets targets;
  std::vector<std::vector<HostTensor>> batches;
  /// By part and microbatch.
  std::vector<double> shares;
};

/// How many targets count in a microbatch that a data source has read.
int64_t countTargets(const CountedTargets &targets, llvm::ArrayRef<HostTensor> batch);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_TRAIN_LOSSSHARES_H
