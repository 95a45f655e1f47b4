//===- Loss.td - losses and their gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_LOSS
#define CLEAVE_DIALECTS_ATEN_OPS_LOSS

include "dialects/aten/AtenBase.td"

class Aten_LossOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Negative log likelihood
//===----------------------------------------------------------------------===//

def Aten_NllLossForwardOp : Aten_LossOp<"nll_loss_forward", "negative log likelihood of the target classes"> {
  let description = [{
    `-weight[t] * self[t]` for the target class `t` of each example, those whose target is
    `ignore_index` left out. `total_weight` is the sum of the weights, by which the mean divides.

    Constraints:
    1. `self` is N x C, or C for a single example, with a floating-point dtype; `target` is N, or
       0-d, of dtype `i64` or `ui8`.
    2. `weight`, where present, has shape C and the dtype of `self`.
    3. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    4. The result has the shape of `target` for no reduction and batched examples, else it is 0-d;
       it has the dtype of `self`.
    5. `total_weight` is 0-d with the dtype of `self`.

    ```mlir
    %0:2 = aten.nll_loss_forward(%x, %t, none, reduction = 1, ignore_index = -100)
        : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<f32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_OptTensor:$weight,
                       Aten_ReqInt:$reduction, Aten_ReqInt:$ignore_index);
  let results = (outs Aten_Tensor:$output, Aten_Tensor:$total_weight);
  let sharding = Aten_CustomSharding;
  let linear = ["self -> 0"];
}

def Aten_NllLossBackwardOp : Aten_LossOp<"nll_loss_backward", "gradient of `nll_loss_forward`"> {
  let description = [{
    Constraints:
    1. `self` is N x C, or C for a single example, with a floating-point dtype; `target` is N, or
       0-d, of dtype `i64` or `ui8`.
    2. `weight`, where present, has shape C and the dtype of `self`.
    3. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    4. `grad_output` has the shape of `target` for no reduction and batched examples, else it is
       0-d; it has the dtype of `self`.
    5. `total_weight` is 0-d with the dtype of `self`.
    6. The result has the type of `self`.

    ```mlir
    %0 = aten.nll_loss_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %total)
        : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target,
                       Aten_OptTensor:$weight, Aten_ReqInt:$reduction, Aten_ReqInt:$ignore_index,
                       Aten_Tensor:$total_weight);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
}

//===----------------------------------------------------------------------===//
// Squared error
//===----------------------------------------------------------------------===//

def Aten_MseLossOp : Aten_LossOp<"mse_loss", "squared distance"> {
  let description = [{
    Constraints:
    1. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    2. The shapes of `self` and `target` broadcast.
    3. The result has this shape for no reduction, else it is 0-d; it has the dtype to which PyTorch
       promotes the operands.

    ```mlir
    %0 = aten.mse_loss(%x, %t) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_Int:$reduction);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
}

def Aten_MseLossBackwardOp : Aten_LossOp<"mse_loss_backward", "gradient of `mse_loss`"> {
  let description = [{
    Constraints:
    1. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    2. The shapes of the operands broadcast to that of the result.
    3. The result has the dtype of `self`.

    ```mlir
    %0 = aten.mse_loss_backward(%g, %x, %t, reduction = 1)
        : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target,
                       Aten_ReqInt:$reduction);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_LOSS
