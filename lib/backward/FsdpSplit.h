//===- FsdpSplit.h - FSDP once per step -----------------------------*- C++ -*-===//
//
// Under fully sharded data parallelism each microbatch gathers every parameter, and reduces and
// scatters every gradient. Here that moves to functions that run once per step.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_BACKWARD_FSDPSPLIT_H
#define CLEAVE_LIB_BACKWARD_FSDPSPLIT_H

#include "dialects/train/Program.h"

#include "llvm/ADT/StringSet.h"

namespace cleave::backward {

struct FsdpSplitOptions {
  bool unshard = true, reduce = true;
};

/// What has moved out of the microbatch.
struct FsdpSplit {
  /// Functions of these phases, beside those of the microbatch; null where nothing moves there.
  mlir::func::FuncOp unshard, reduce;
  unsigned numGathers = 0, numReductions = 0;
  /// What gathered parameters hold through the step, and what accumulators of gradients that are
  /// not reduced hold more than before.
  int64_t heldBytes = 0, addedBytes = 0;
};

/// Names of the results of all functions of `program`.
llvm::StringSet<> listResultNames(const train::ProgramFunctions &program);

/// Splits one part of `program` (`getParts`), joint or in several functions. What the unshard
/// returns gets names that are not in `names`, and are then. Fails, with an error, if the part has
/// such functions already or gradients of what is not in the program.
llvm::FailureOr<FsdpSplit> splitFsdpCollectives(const train::ProgramFunctions &program,
                                                size_t number, llvm::StringSet<> &names,
                                                const FsdpSplitOptions &options = {});

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_FSDPSPLIT_H
