//===- TensorFunction.h - a program as a function of tensors -------*- C++ -*-===//
//
// For callers who have tensors of LibTorch's and no training step, as torch.compile has: nothing is
// copied on the way in or out, and there is no state between calls.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_SESSION_TENSORFUNCTION_H
#define CLEAVE_RUNTIME_SESSION_TENSORFUNCTION_H

#include "runtime/exec/Executor.h"
#include "runtime/exec/RandomStream.h"
#include "runtime/kernels/CompiledKernels.h"
#include "runtime/ranks/RankGrid.h"

namespace cleave::runtime {

/// A program of one function, from inputs, parameters, buffers and constants to outputs, bound on
/// the processor. Called by one thread at a time.
class TensorFunction {
public:
  /// `program` outlives the function. `kernels`: as SessionOptions has it. Errors name what of the
  /// program is more than a function of tensors, or the op that this LibTorch cannot run.
  static llvm::Expected<std::unique_ptr<TensorFunction>> create(const Program &program,
                                                                const std::string &kernels);

  /// What `call` takes, in order.
  llvm::ArrayRef<ValueInfo> arguments() const { return parameters; }

  /// Computes the results. Arguments may have any strides; each is let go of after its last use, so
  /// that the memory of one without other holders is free then. A result is an argument itself
  /// where the function returns it, shares memory with one where it is a view of it, and then its
  /// version counter too. Random numbers are those of the process's default generator, which is
  /// left where eager mode would leave it.
  llvm::Expected<std::vector<at::Tensor>> call(std::vector<at::Tensor> tensors);

private:
  explicit TensorFunction(const Program &program) : program(program) {}
  llvm::Error bind(const std::string &kernels);
  llvm::Error check(llvm::ArrayRef<at::Tensor> tensors) const;
  void takeGenerator();
  void leaveGenerator();

  const Program &program;
  std::vector<ValueInfo> parameters;
  /// Of the function's arguments: which of `call`'s each is; none for those of random numbers.
  std::vector<std::optional<size_t>> places;
  std::unique_ptr<RankGrid> ranks;
  std::unique_ptr<KernelSource> kernelSource;
  RandomStream random;
  Services services;
  std::unique_ptr<Executor> executor;
  at::Tensor rngStart; ///< the seed, and where numbers begin: zero
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_TENSORFUNCTION_H
