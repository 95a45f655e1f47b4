//===- Passes.td - passes towards the executable form --------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_LOWERING_PASSES
#define CLEAVE_PASSES_LOWERING_PASSES

include "mlir/Pass/PassBase.td"

def FuseKernels : Pass<"fuse-kernels", "::mlir::ModuleOp"> {
  let summary = "join pointwise ops, broadcasts and reductions to kernels";
  let description = [{
    Ops that work on the rows of one matrix (`lib/kernels/RowOp.h`) become an `exec.kernel`, so that a
    row is read once for all of them: normalizations, softmax, activations and gates, residual
    connections, and their gradients. Contractions, attention, convolutions and ops that move elements
    stay what they are. Equal regions, as those of a model's layers, share one kernel.

    A kernel is executed like the ops it consists of, in their order, unless it is compiled: the
    program computes the same. Ops around kernels may change places; communication keeps its order.

    Before:
    ```mlir
    %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
    ```
    After:
    ```mlir
    exec.kernel @add_gelu(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
      %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
      %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
      exec.return %1 : tensor<8x32xf32>
    }
    %1 = exec.launch @add_gelu(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
    ```
  }];
  let options = [
    Option<"minOps", "min-ops", "unsigned", "2", "ops that a kernel has at least, views apart">,
  ];
  let statistics = [
    Statistic<"numKernels", "kernels", "kernels made">,
    Statistic<"numLaunches", "launches", "launches of kernels">,
    Statistic<"numFused", "fused", "ops that are part of a launch now">,
  ];
  let dependentDialects = ["::cleave::exec::ExecDialect"];
}

#endif // CLEAVE_PASSES_LOWERING_PASSES
