//===- Losses.h - the losses of a session's microbatches -----------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_SESSION_LOSSES_H
#define CLEAVE_RUNTIME_SESSION_LOSSES_H

#include "runtime/step/StepContext.h"

namespace cleave::runtime {

class StepRunner;

/// Reads losses among a session's results, and keeps those that are on their way from a device.
/// The functions are Session's of the same names.
class Losses {
public:
  explicit Losses(StepContext &context);

  double loss() const;
  llvm::Expected<double> wholeLoss() const;
  llvm::Error note(const StepRunner &runner);
  llvm::Expected<std::vector<double>> take();

private:
  const at::Tensor *find() const;
  llvm::Expected<double> assemble(const ConstTensorRef &part) const;
  /// Waits until the device has done what it was given, or a peer fails it.
  llvm::Error awaitDevice() const;

  StepContext &context;
  /// Which of a microbatch's results is the loss; none in a program without one.
  std::optional<size_t> place;
  /// Noted since the last `take`: copies on their way to the host, each this rank's part, and
  /// numbers that were known at once.
  std::vector<at::Tensor> noted;
  std::vector<double> known;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_LOSSES_H
