//===- SplitPlan.h - a backward in two halves ----------------------*- C++ -*-===//
//
// Zero-bubble schedules (Qi et al., arXiv 2401.10241) run a stage's backward in two halves. The
// backward-input (dI) gives the gradients that the previous stage waits for; the backward-weight
// (dW) gives those of parameters, at any later time, from saved values and from what dI has
// computed on its way. The plan says what each half computes and what is held between them; it
// changes nothing.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_SPLITPLAN_H
#define CLEAVE_LIB_BACKWARD_SPLITPLAN_H

#include "lib/backward/GradientRoles.h"
#include "lib/backward/GradientSlice.h"

#include "llvm/ADT/SetVector.h"

#include <string>

namespace cleave::backward {

struct SplitOptions {
  /// What dI computes besides gradients of inputs: nothing ("roles"), every gradient of an
  /// activation that one of a parameter starts from ("activations"), or the gradients that leave a
  /// module ("h.0", or several with commas).
  std::string inputs = "roles";
  /// Whether dW may compute a cheap value again where that holds less memory.
  bool recomputeCheap = false;
};

/// Bytes that live from dI to dW, for one microbatch. Parameters, constants and buffers, which are
/// there anyway, do not count; what shares memory counts once.
struct HeldMemory {
  int64_t savedBytes = 0;     ///< of the forward's saved values and inputs that dW takes
  int64_t byProductBytes = 0; ///< of values that dI makes
  int64_t totalBytes() const { return savedBytes + byProductBytes; }
};

struct SplitPlan {
  GradientResults results;
  /// Indices of the results that dI gives and of those that dW gives, in the function's order.
  llvm::SmallVector<unsigned> inputResults, weightResults;
  /// Gradients of activations that dI is for, besides its results.
  llvm::SetVector<mlir::Value> activationGradients;
  GradientSlice input;
  /// What only dW computes.
  GradientSlice weight{&input};
  /// Values of dI, or arguments, that dW starts from, in the order of the function.
  llvm::SetVector<mlir::Value> held;
  /// Values of dI that dW recomputes.
  llvm::DenseSet<mlir::Value> recomputed;
  HeldMemory memory;

  SplitPlan() = default;
  SplitPlan(const SplitPlan &) = delete; // `weight` refers to `input`
  SplitPlan &operator=(const SplitPlan &) = delete;
};

/// Plans the split of `function`, the backward of `program`. Emits an error for gradients of
/// unknown names and for options that name no module of the function.
llvm::FailureOr<std::unique_ptr<SplitPlan>> planSplit(const train::ProgramFunctions &program,
                                                      mlir::func::FuncOp function,
                                                      const SplitOptions &options);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_SPLITPLAN_H
