//===- Passes.td - differentiation ------------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_AUTODIFF_PASSES
#define CLEAVE_PASSES_AUTODIFF_PASSES

include "mlir/Pass/PassBase.td"

def Autodiff : Pass<"autodiff", "::mlir::ModuleOp"> {
  let summary = "reverse mode: add the gradients of the loss to a forward-only program";
  let description = [{
    The microbatch function gets the argument `seed`, the gradient of the loss, and for each parameter
    that is not frozen and on which the loss depends a result `gradient`; where the program has an update,
    which takes sums over microbatches, with an `accumulator` argument and `train.accumulate`. What
    PyTorch's autograd would compute is computed, by the same kernels in the same order, so that on
    one device the gradients are those of its joint graph, bit for bit.

    Tied weights, one argument, get one sum. Activation-checkpointing tags stay on the ops of the forward;
    ops of the backward are marked `train.backward`, and have location and stage of the op they
    differentiate. An op without a derivative is an error at that op if a gradient must flow through it.
    `aten.detach`, which cuts gradients off, is erased: what holds its gradients needs it no longer.

    In a typed function the gradient of a value has the dual placement.

    Before:
    ```mlir
    func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">})
        -> (tensor<f32> {train.role = #train.role<loss>})
        attributes {train.phase = #train.phase<microbatch>} {
      %0 = aten.exp(%w) : (tensor<8xf32>) -> tensor<8xf32>
      %1 = aten.sum(%0) : (tensor<8xf32>) -> tensor<f32>
      return %1 : tensor<f32>
    }
    ```
    After:
    ```mlir
    func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">},
                          %seed: tensor<f32> {train.role = #train.role<seed>})
        -> (tensor<f32> {train.role = #train.role<loss>},
            tensor<8xf32> {train.role = #train.role<gradient "w">})
        attributes {train.phase = #train.phase<microbatch>} {
      %0 = aten.exp(%w) : (tensor<8xf32>) -> tensor<8xf32>
      %1 = aten.sum(%0) : (tensor<8xf32>) -> tensor<f32>
      %2 = aten.expand(%seed, size = [8]) {train.backward} : (tensor<f32>) -> tensor<8xf32>
      %3 = aten.mul(%2, %0) {train.backward} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      return %1, %3 : tensor<f32>, tensor<8xf32>
    }
    ```
  }];
  let options = [
    ListOption<"inputs", "inputs", "std::string", "Inputs whose gradients are results too">
  ];
  let statistics = [
    Statistic<"numGradients", "gradients", "Gradients that became results">,
    Statistic<"numOps", "ops of the backward", "Ops that were added">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect",
                           "::cleave::train::TrainDialect"];
}

#endif // CLEAVE_PASSES_AUTODIFF_PASSES
