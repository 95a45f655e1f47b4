//===- Form.h - what form a program has, beyond its signature --------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_PROGRAM_FORM_H
#define CLEAVE_RUNTIME_PROGRAM_FORM_H

#include "llvm/ADT/StringSet.h"

#include <optional>

namespace cleave::runtime {

class Program;

/// Whether functions say where their values lie in memory (`docs/executable.md`).
bool isLowered(const Program &program);

/// Whether ops are fused into kernels.
bool hasKernels(const Program &program);

/// Whether the mean of the loss is over the targets that count, not over microbatches.
bool hasTargetMean(const Program &program);

/// How the scale of the loss changes: `#train.loss_scaling` has the same fields.
struct LossScaling {
  double init = 1, growth = 2, backoff = 0.5;
  int64_t interval = 1;
};
/// None where losses are not scaled.
std::optional<LossScaling> findLossScaling(const Program &program);

/// The buffers that state dicts leave out, by name.
llvm::StringSet<> listTransientBuffers(const Program &program);
/// The names of the loss module's parameters and buffers in the program.
llvm::StringSet<> listLossState(const Program &program);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROGRAM_FORM_H
