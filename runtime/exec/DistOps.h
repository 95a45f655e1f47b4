//===- DistOps.h - what binding functions ask of ops of dist -------*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_EXEC_DISTOPS_H
#define CLEAVE_RUNTIME_EXEC_DISTOPS_H

#include "dialects/dist/Dist.h"
#include "runtime/comm/Communicator.h"
#include "runtime/ranks/RankGrid.h"

namespace cleave::runtime {

std::vector<std::string> axisNames(mlir::ArrayAttr axes);
ReductionOp toReduction(dist::ReductionAttr reduction);

/// Size of a dimension in the type of a value, or of a future's.
int64_t localSize(mlir::Value value, int64_t dim);

/// An error unless this rank's part of `whole` elements, which `axes` shard, has the size `local`
/// that the function's types say: where a dimension does not divide, each class of ranks has its
/// own function.
llvm::Error checkPart(const RankGrid &grid, llvm::ArrayRef<std::string> axes, int64_t whole,
                      int64_t local, int64_t dim);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXEC_DISTOPS_H
