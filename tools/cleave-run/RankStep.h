//===- RankStep.h - what a step of a program leaves on a rank ------*- C++ -*-===//

#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RANKSTEP_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RANKSTEP_H

#include "cleave/Session.h"
#include "runtime/comm/Communicator.h"
#include "runtime/ranks/WholeTensors.h"
#include "tools/cleave-run/Options.h"

namespace cleave::run {

/// What a rank has of a value of the program that runs on one device. A buffer may be that of all
/// microbatches or of the rank's own.
enum class StepPart : uint8_t { Whole, OwnExamples, Term, Buffer };

struct StepValue {
  runtime::WholeTensor tensor;
  StepPart part = StepPart::Whole;
  /// Of the examples, which are the rank's own.
  int64_t dim = 0;
};

/// What a step leaves on a rank.
struct StepResult {
  std::vector<StepValue> values;
  runtime::Session::BatchPart batch;
};

/// Runs step `options.wholeStep` with its update, on all ranks of `world`, which call it together:
/// `microbatches` of the options' inputs on each. `listsLosses`: that of each microbatch, of ranks
/// that have microbatches of their own; else their mean.
llvm::Expected<StepResult> runStep(const runtime::Program &program, runtime::Communicator &world,
                                   const Options &options, int64_t microbatches, bool listsLosses);

/// The buffers that a program for one device leaves which runs the `microbatches` of part `part` of
/// the step's batch alone, with their random numbers.
llvm::Expected<std::vector<runtime::WholeTensor>> runBuffers(const runtime::Program &program,
                                                             const Options &options,
                                                             int64_t microbatches,
                                                             runtime::Session::BatchPart part);

/// Adds `more`, of as many elements, to a tensor of float32 or float64.
llvm::Error add(runtime::WholeTensor &sum, llvm::ArrayRef<char> more);

} // namespace cleave::run

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RANKSTEP_H
