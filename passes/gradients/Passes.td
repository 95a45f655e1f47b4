//===- Passes.td - passes over gradients ------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_GRADIENTS_PASSES
#define CLEAVE_PASSES_GRADIENTS_PASSES

include "mlir/Pass/PassBase.td"

def SyncGradients : Pass<"sync-gradients", "::mlir::ModuleOp"> {
  let summary = "data parallelism: sum every parameter's gradient over a mesh axis";
  let description = [{
    Puts one `dist.all_reduce` (sum) on each accumulated gradient that the update takes, and marks
    every batched input as divided over the axis. The mean over ranks is in the seed of the
    backward, so the reduction is a plain sum.

    Makes the mesh if the module has none, with the size of the axis left open (`?`) unless `size`
    is given; with a mesh, the axis must be one of its own. A program whose gradients are already
    reduced over the axis is refused: a second sum would multiply them.

    A program with placements is refused: its update holds the sums that its types ask for.

    In a program without an update, whose caller steps an optimizer of its own, gradients of
    parameters are added up over the step's microbatches, and a function of phase `reduce` gives
    them back summed: over the axis, or, where gradients have placements, over the axes on which
    they are pending sums.

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
    Option<"axis", "axis", "std::string", "\"dp\"", "Mesh axis over which the batch is divided">,
    Option<"size", "size", "int64_t", "0", "Ranks along the axis, where the pass makes the mesh (0: left open)">
  ];
  let statistics = [
    Statistic<"numReduced", "gradients reduced", "Gradients that got an all-reduce">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def BucketGradients : Pass<"bucket-gradients", "::mlir::ModuleOp"> {
  let summary = "gather gradients in flat buffers that are reduced once each, as soon as they are complete";
  let description = [{
    Groups the gradients that the update takes by parameter group (optimizer op, its
    hyper-parameters, and the schedule of its learning rate), element type, mesh, axes to reduce over and
    the function that makes them, and puts each group, in the order in which gradients are ready,
    into buckets of at most `bucket-size-mb`. Reductions of single gradients in the update
    (`--sync-gradients`) become the buckets'; a gradient with nothing to reduce gets a local bucket.

    Each gradient is contributed where it is made; one that a collective brings, beside the next
    gradient that a matrix product stands before, so that the collective has something to run
    beside. The reduction is started by `train.reduce_bucket` behind the bucket's last contribution
    in the step's last microbatch, and awaited in front of the update's first use. Optimizer steps
    follow the order of the buckets: the first ones run while the last buckets are still reduced.

    In a program without an update the reduce function (`--sync-gradients` makes it) waits for the
    buckets and gives their members' gradients back.

    Where a reduce function (`--split-fsdp-collectives`) scatters a gradient along a dimension, the
    bucket does that too (one reduce-scatter, and one sum over further axes), and the update takes
    its parts; a reduce function that is then empty goes.

    A gradient of which the accumulation or reduction is more than plain sums is refused.

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
    Option<"bucketSizeMb", "bucket-size-mb", "double", "25", "Most MiB of one bucket; a larger gradient has one to itself">,
    Option<"firstBucketMb", "first-bucket-mb", "double", "1", "Most MiB of the bucket that is ready first">,
    Option<"requireAccumulations", "require-accumulations", "int64_t", "0", "Microbatches that a step must have (0: as many as it is run with)">,
    Option<"reduceInFp32", "reduce-in-fp32", "bool", "false", "Gather and reduce gradients of narrower types in f32">,
    Option<"fuseAccumulate", "fuse-accumulate", "bool", "false", "Let matrix products write into the bucket (rounds otherwise than a product and a sum)">,
    Option<"explain", "explain", "bool", "false", "Say in a remark what each bucket holds">
  ];
  let statistics = [
    Statistic<"numBuckets", "buckets", "Buckets made">,
    Statistic<"numMembers", "gradients in buckets", "Gradients put into buckets">,
    Statistic<"numFused", "products in buckets", "Matrix products that write into a bucket">,
    Statistic<"numReductions", "reductions per step", "Buckets that are reduced over mesh axes">
  ];
  let dependentDialects = ["::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

def ClipGradients : Pass<"clip-gradients", "::mlir::ModuleOp"> {
  let summary = "bound the norm of all gradients together";
  let description = [{
    Multiplies every gradient that the optimizer takes by min(1, max-norm / (norm + 1e-6)), where the
    norm is the 2-norm of all gradients together, over all mesh axes: what
    `torch.nn.utils.clip_grad_norm_` does, op by op. It belongs behind the gradients' reduction
    (`--sync-gradients`, `--bucket-gradients`): a gradient that is partial or varying over an axis is refused, one that is
    sharded adds its squares over the axis.

    In a program of pipeline stages the norm is that of all stages: each stage's reduce function gives
    the square of its norm as a term of a `stage_sum`, and the updates scale by the root of the sum.

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
    Option<"maxNorm", "max-norm", "double", "1.0", "Largest norm that the gradients keep">
  ];
  let statistics = [
    Statistic<"numClipped", "gradients clipped", "Gradients that the factor multiplies">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect", "::cleave::train::TrainDialect"];
}

#endif // CLEAVE_PASSES_GRADIENTS_PASSES
