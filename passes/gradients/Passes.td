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

#endif // CLEAVE_PASSES_GRADIENTS_PASSES
