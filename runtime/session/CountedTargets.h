//===- CountedTargets.h - the targets that count in a program's mean -*- C++ -*-===//
//
// A program may say (`train.mean_over`) that the loss of a step is the mean over the targets that
// its loss does not ignore, in whatever microbatch and on whatever rank they are. The loss of a
// microbatch is the mean over its own; so its share of the step's loss is its number of targets by
// that of the step, and its backward starts from that share.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_SESSION_COUNTEDTARGETS_H
#define CLEAVE_RUNTIME_SESSION_COUNTEDTARGETS_H

#include "cleave/Session.h"
#include "runtime/io/TensorSet.h"

namespace cleave::runtime {

class CountedTargets {
public:
  /// None where each microbatch counts the same; an error where what the program says of its
  /// targets does not fit its inputs.
  static llvm::Expected<std::optional<CountedTargets>> find(const Program &program,
                                                            const RankGrid &grid);

  /// Which of the program's inputs the targets are.
  size_t input() const { return index; }
  llvm::StringRef name() const { return label; }
  /// How many targets count in a microbatch, of which `whole` is that input.
  int64_t count(const ConstTensorRef &whole) const;

private:
  size_t index = 0;
  std::string label;
  Box box;
  int64_t ignored = 0;
};

/// The share of each microbatch in a loss to which they contribute `counts` targets. Without any
/// target all are 0, and the loss is not a number, as it is for PyTorch.
std::vector<double> computeShares(llvm::ArrayRef<int64_t> counts);

/// The mean of losses with these shares. Microbatches without a share have no loss.
double averageLosses(llvm::ArrayRef<double> losses, llvm::ArrayRef<double> shares);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_COUNTEDTARGETS_H
