//===- MicrobatchParts.h - builds a forward and its backward -------*- C++ -*-===//

#ifndef CLEAVE_LIB_BACKWARD_MICROBATCHPARTS_H
#define CLEAVE_LIB_BACKWARD_MICROBATCHPARTS_H

#include "lib/backward/PartBuilder.h"
#include "lib/backward/Partition.h"

namespace cleave::backward {

/// The two functions that a joint one is split into.
struct MicrobatchParts {
  mlir::func::FuncOp forward, backward;
  /// Ops that the backward recomputes.
  unsigned numRecomputed = 0;
};

/// Builds both before the function of `graph`, which stays. `names`: those of the saved values of
/// `partition`, in its order. Ops recomputed are marked `train.recomputed`; what is to be offloaded
/// is.
MicrobatchParts buildParts(const JointGraph &graph, const Partition &partition,
                           llvm::ArrayRef<std::string> names);

} // namespace cleave::backward

#endif // CLEAVE_LIB_BACKWARD_MICROBATCHPARTS_H
