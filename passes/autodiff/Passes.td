//===- Passes.td - differentiation ------------------------------*- tablegen -*-===//

#ifndef CLEAVE_PASSES_AUTODIFF_PASSES
#define CLEAVE_PASSES_AUTODIFF_PASSES

include "mlir/Pass/PassBase.td"

def Autodiff : Pass<"autodiff", "::mlir::ModuleOp"> {
  let summary = "differentiate a forward-only program in reverse mode";
  let description = [{
    Adds to the microbatch function the argument `seed`, the gradient of the loss, and a `gradient` result
    for each unfrozen parameter on which the loss depends. If the program has an update, which consumes
    sums over microbatches, each gradient also gets an `accumulator` argument and a `train.accumulate`.
    The backward runs the kernels of PyTorch's autograd in the same order, so that on one device gradients
    are bitwise identical to those of PyTorch's joint graph.

    A tied weight is one argument and has one gradient. Activation-checkpoint tags stay on forward ops;
    backward ops are marked `train.backward` and inherit location and stage of the op they
    differentiate. An op without a derivative is an error if a gradient must flow through it.
    `aten.detach`, which stops gradients, is erased: once gradients are explicit it has no effect.

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
    ListOption<"inputs", "inputs", "std::string", "inputs whose gradients to return as well">
  ];
  let statistics = [
    Statistic<"numGradients", "gradients", "gradients added as results">,
    Statistic<"numOps", "ops of the backward", "ops added">
  ];
  let dependentDialects = ["::cleave::aten::AtenDialect", "::cleave::dist::DistDialect",
                           "::cleave::train::TrainDialect"];
}

#endif // CLEAVE_PASSES_AUTODIFF_PASSES
