//===- Passes.td - passes over gradients ------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_GRADIENTS_PASSES
#define CLEAVE_PASSES_GRADIENTS_PASSES

include "mlir/Pass/PassBase.td"

def SyncGradients : Pass<"sync-gradients", "::mlir::ModuleOp"> {
  let summary = "sum every parameter's gradient over a mesh axis (data parallelism)";
  let description = [{
    Inserts a `dist.all_reduce` (sum) for each accumulated gradient that the update consumes, and marks
    every batched input as divided over the axis. The seed of the backward already averages over
    ranks, so the reduction is a plain sum.

    Creates the mesh if the module has none; the size of the axis is left open (`?`) unless `size` is
    given. An existing mesh must have the axis. A program whose gradients are already reduced over the
    axis is rejected: a second sum would scale them.

    A program with placements is rejected: its update already contains the sums that its types require.

    In a program without an update, whose caller runs the optimizer, gradients of parameters are
    accumulated over the step's microbatches, and a function of phase `reduce` returns them summed:
    over the axis, or, if gradients have placements, over the axes on which they are pending sums.

    Before, in the update:
    ```mlir
    %p1, %m1, %v1 = train.adamw(%p, %g, %m, %v, %step, %lr) ...
    ```
    After:
    ```mlir
    %sum = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8x8xf32>
    %p1, %m1, %v1 = train.adamw(%p, %sum, %m, %v, %step, %lr) ...
    ```
  }];
  let options = [
    Option<"axis", "axis", "std::string", "\"dp\"", "mesh axis over which the batch is divided">,
    Option<"size", "size", "int64_t", "0", "size of the axis if the pass creates the mesh (0: left open)">
  ];
  let statistics = [
    Statistic<"numReduced", "gradients reduced", "gradients given an all-reduce">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def BucketGradients : Pass<"bucket-gradients", "::mlir::ModuleOp"> {
  let summary = "collect gradients in flat buffers, each reduced once, as soon as it is complete";
  let description = [{
    Groups the gradients that the update consumes by parameter group (optimizer op, its
    hyper-parameters and learning rate schedule), element type, mesh, reduction axes and producing
    function, and packs each group, in the order in which gradients are ready, into buckets of at most
    `bucket-size-mb`. A bucket's reduction replaces the reductions of its members in the update
    (`--sync-gradients`); a gradient that is not reduced goes into a local bucket.

    Each gradient is contributed where it is produced; one that a collective produces, next to the
    following gradient that a matrix product precedes, so that the collective can overlap it.
    `train.reduce_bucket` starts the reduction after the bucket's last contribution in the step's last
    microbatch; the update waits for it before its first use. Optimizer steps follow the order of the
    buckets: the first run while the last buckets are still being reduced.

    In a program without an update, the reduce function that `--sync-gradients` creates waits for the
    buckets and returns their members' gradients.

    If a reduce function (`--split-fsdp-collectives`) scatters a gradient along a dimension, so does the
    bucket (one reduce-scatter, and one sum over the remaining axes), and the update consumes the
    shards; a reduce function left empty is erased.

    A gradient whose accumulation or reduction is not a plain sum is rejected.

    Before:
    ```mlir
    func.func @microbatch(..., %a: tensor<8xf32> {train.role = #train.role<accumulator "w">})
        -> (..., tensor<8xf32> {train.role = #train.role<gradient "w">}) ... {
      %sum = train.accumulate %g into %a : tensor<8xf32>
    ...
    func.func @update(%w: ..., %g: tensor<8xf32> {train.role = #train.role<gradient "w">}, ...) ... {
      %s = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8xf32>
      ... train.sgd(%w, %s, ...)
    ```
    After:
    ```mlir
    train.bucket @bucket0 of f32 ["w" : tensor<8xf32>] over @mesh ["dp"]
    func.func @microbatch(..., %b: !train.bucket<@bucket0 : tensor<8xf32>> {train.role = #train.role<accumulator "bucket0">})
        -> (..., !train.bucket<@bucket0 : tensor<8xf32>> {train.role = #train.role<gradient "bucket0">}) ... {
      %1 = train.contribute %g to "w" in %b : tensor<8xf32>, !train.bucket<@bucket0 : tensor<8xf32>>
      %2 = train.reduce_bucket %1 : !train.bucket<@bucket0 : tensor<8xf32>>
    ...
    func.func @update(%w: ..., %b: !train.bucket<@bucket0 : tensor<8xf32>> {train.role = #train.role<gradient "bucket0">}, ...) ... {
      %s = train.wait_bucket %b : !train.bucket<@bucket0 : tensor<8xf32>> -> tensor<8xf32>
      ... train.sgd(%w, %s, ...)
    ```
    Sources: PyTorch's DistributedDataParallel reducer; d9d's `GradientSynchronizer`.
  }];
  let options = [
    Option<"bucketSizeMb", "bucket-size-mb", "double", "25", "maximum bucket size in MiB; a larger gradient gets a bucket to itself">,
    Option<"firstBucketMb", "first-bucket-mb", "double", "1", "maximum size in MiB of the bucket that is ready first">,
    Option<"requireAccumulations", "require-accumulations", "int64_t", "0", "required number of microbatches per step (0: any)">,
    Option<"reduceInFp32", "reduce-in-fp32", "bool", "false", "accumulate and reduce gradients of narrower types in f32">,
    Option<"fuseAccumulate", "fuse-accumulate", "bool", "false", "let matrix products accumulate into the bucket (changes rounding)">,
    Option<"explain", "explain", "bool", "false", "emit a remark with the contents of each bucket">
  ];
  let statistics = [
    Statistic<"numBuckets", "buckets", "buckets created">,
    Statistic<"numMembers", "gradients in buckets", "gradients placed in buckets">,
    Statistic<"numFused", "products in buckets", "matrix products that accumulate into a bucket">,
    Statistic<"numReductions", "reductions per step", "buckets reduced over mesh axes">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def ClipGradients : Pass<"clip-gradients", "::mlir::ModuleOp"> {
  let summary = "clip gradients by their global norm";
  let description = [{
    Multiplies every gradient that the optimizer consumes by min(1, max-norm / (norm + 1e-6)), where
    norm is the 2-norm of all gradients together, over all mesh axes: the computation of
    `torch.nn.utils.clip_grad_norm_`, op by op. Run it after the gradients' reduction
    (`--sync-gradients`, `--bucket-gradients`): a gradient that is partial or varying on an axis is
    rejected; the squares of a sharded one are summed over the axis.

    In a program with pipeline stages the norm is that of all stages: each stage's reduce function
    returns the square of its norm as a term of a `stage_sum`, and the updates scale by the square root
    of the sum.

    Before, in the update:
    ```mlir
    %p1, %m1, %v1 = train.adamw(%p, %g, %m, %v, %step, %lr) ...
    ```
    After:
    ```mlir
    %n = aten.linalg_vector_norm(%g, ord = 2.0) : (tensor<8x8xf32>) -> tensor<f32>
    %all = aten.stack([%n, ...]) ...
    %norm = aten.linalg_vector_norm(%all, ord = 2.0) ...
    ... %factor = aten.clamp(...)
    %g1 = aten.mul(%g, %factor) ...
    %p1, %m1, %v1 = train.adamw(%p, %g1, %m, %v, %step, %lr) ...
    ```
  }];
  let options = [
    Option<"maxNorm", "max-norm", "double", "1.0", "maximum norm">
  ];
  let statistics = [
    Statistic<"numClipped", "gradients clipped", "gradients scaled">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def ScaleLoss : Pass<"scale-loss", "::mlir::ModuleOp"> {
  let summary = "scale the loss, unscale gradients, and skip steps whose gradients are not finite";
  let description = [{
    Dynamic loss scaling for gradients in f16, as `torch.amp.GradScaler` does it: writes the rule of the scale as
    `train.loss_scaling` on the module, by which runs multiply the seed of the backward, and divides every gradient that
    the optimizer takes by the scale. Where one of them is not finite, on whatever rank and in whatever stage, all
    ranks skip the step's update.

    What the update did to gradients (reductions, waiting for buckets) moves to a function of phase `reduce`, which
    returns the unscaled gradients, and a term of the `stage_sum` "nonfinite_gradients": 0 if all are finite, else NaN. Run it after the
    gradients' reduction (`--sync-gradients`, `--bucket-gradients`) and before `--clip-gradients`.

    Gradients of f16, which PyTorch does not unscale, and complex ones are rejected.

    Before, in the update:
    ```mlir
    %sum = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8x8xf32>
    %p1, %m1, %v1 = train.adamw(%p, %sum, %m, %v, %step, %lr) ...
    ```
    After, in the function that reduces:
    ```mlir
    func.func @reduce(%g: ... gradient "w", %scale: tensor<f32> {train.role = #train.role<loss_scale>})
        -> (... gradient "w", tensor<f32> {train.role = #train.role<stage_sum "nonfinite_gradients">}) ... {
      %sum = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<8x8xf32>
      %inverse = aten.reciprocal(%scale) : (tensor<f32>) -> tensor<f32>
      %unscaled = aten.mul(%sum, %inverse) ...
      %zeros = aten.mul_scalar(%sum, other = 0.0) ...
      %flag = aten.sum(%zeros) ...
    ```
  }];
  let options = [
    Option<"initScale", "init-scale", "double", "65536.0", "scale of the first step">,
    Option<"growthFactor", "growth-factor", "double", "2.0", "factor of the scale after growth-interval steps that were not skipped">,
    Option<"backoffFactor", "backoff-factor", "double", "0.5", "factor of the scale after a step that was skipped">,
    Option<"growthInterval", "growth-interval", "int64_t", "2000", "steps in a row without a skipped one until the scale grows">
  ];
  let statistics = [
    Statistic<"numUnscaled", "gradients unscaled", "gradients divided by the scale">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def MeasureGradientNorm : Pass<"measure-gradient-norm", "::mlir::ModuleOp"> {
  let summary = "compute the global norm of gradients";
  let description = [{
    Makes the update give the 2-norm of all gradients that the optimizer consumes, over all mesh axes
    and pipeline stages: its output `gradient_norm`, which runs report as such. The same as
    `--clip-gradients` computes, of gradients that stay as they are; where it runs is the same, too.

    After:
    ```mlir
    %n = aten.linalg_vector_norm(%g, ord = 2.0) : (tensor<8x8xf32>) -> tensor<f32>
    %all = aten.stack([%n, ...]) ...
    %norm = aten.linalg_vector_norm(%all, ord = 2.0) ...
    %p1, %m1, %v1 = train.adamw(%p, %g, %m, %v, %step, %lr) ...
    return %p1, %m1, %v1, ..., %norm
    ```
  }];
  let statistics = [
    Statistic<"numMeasured", "gradients measured", "gradients of which the norm is">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

#endif // CLEAVE_PASSES_GRADIENTS_PASSES
