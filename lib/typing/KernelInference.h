//===- KernelInference.h - the placements inside a kernel -----------*- C++ -*-===//
//
// A kernel's body has no placements of its own: it is typed separately for each launch, from what
// the launch gives it and what it declares of the results.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_LIB_TYPING_KERNELINFERENCE_H
#define CLEAVE_LIB_TYPING_KERNELINFERENCE_H

#include "dialects/dist/Dist.h"
#include "dialects/exec/Exec.h"

namespace cleave::placement {

struct KernelPlacements {
  /// Of the arguments, and of the results of all ops before `conflict`.
  llvm::DenseMap<mlir::Value, dist::PlacementAttr> values;
  /// The op that may not join its operands, null if there is none.
  mlir::Operation *conflict = nullptr;
};

/// Types the body of `kernel` as `launch` runs it. Where local shapes leave open which dimension of
/// a view is the sharded one (a part of size 1, or the one after it), the views of the body are
/// typed so that ops join them and results are as declared, if there is a way. `frame` gives mesh
/// and axes; `carriesGradient` is asked of values of the body.
KernelPlacements inferKernel(exec::LaunchOp launch, exec::KernelOp kernel,
                             dist::PlacementAttr frame,
                             llvm::function_ref<bool(mlir::Value)> carriesGradient);

} // namespace cleave::placement

#endif // CLEAVE_LIB_TYPING_KERNELINFERENCE_H
