//===- BucketGroups.h - when gradients are ready, and which go together -*- C++ -*-===//
//
// What `--bucket-gradients` decides before it rewrites anything: the order in which gradients can
// be contributed, and which of them may share a bucket.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_PASSES_GRADIENTS_BUCKETGROUPS_H
#define CLEAVE_PASSES_GRADIENTS_BUCKETGROUPS_H

#include "passes/gradients/GradientPaths.h"

namespace cleave::gradients {

/// Sorts `paths` by the place at which each gradient is contributed (`GradientPath::behind`), and
/// sets it: right after the op that makes the gradient. One that communication brings is
/// contributed later, next to the next gradient that a matrix product precedes, so that the
/// communication has something to overlap.
void orderByReadiness(const train::ProgramFunctions &part, std::vector<GradientPath> &paths);

/// A number for each path; paths of one number may share a bucket. They agree in the function that
/// makes the gradient, the element types of gradient and buffer, the mesh and axes of the
/// reduction, and the optimizer that takes them: kind, hyper-parameters, and the learning rate by
/// what it is computed from. A program runs on one device.
std::vector<unsigned>
groupGradients(const std::vector<GradientPath> &paths,
               llvm::function_ref<mlir::Type(const GradientPath &)> bufferElement);

} // namespace cleave::gradients

#endif // CLEAVE_PASSES_GRADIENTS_BUCKETGROUPS_H
