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
    `-weight[t] * self[t]` for the target class `t` of each example, ignoring examples whose target is
    `ignore_index`. `total_weight` is the sum of the weights, the divisor of the mean.

    Constraints:
    1. `self` is N x C, or C for a single example, with a floating-point dtype; `target` is N, or
       0-d, of dtype `i64` or `ui8`.
    2. `weight`, if present, has shape C and the dtype of `self`.
    3. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    4. The result has the shape of `target` if there is no reduction and the examples are batched, else
       it is 0-d; it has the dtype of `self`.
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
  let rows = Aten_PickedRows;
  let linear = ["self -> 0"];
  let lookUp = "{getTarget(), getSelf(), 1, int64_t(getIgnoreIndex())}";
}

def Aten_NllLossBackwardOp : Aten_LossOp<"nll_loss_backward", "gradient of `nll_loss_forward`"> {
  let description = [{
    Constraints:
    1. `self` is N x C, or C for a single example, with a floating-point dtype; `target` is N, or
       0-d, of dtype `i64` or `ui8`.
    2. `weight`, if present, has shape C and the dtype of `self`.
    3. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    4. `grad_output` has the shape of `target` if there is no reduction and the examples are batched,
       else it is 0-d; it has the dtype of `self`.
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
  let rows = Aten_PickedRows;
  let linear = ["grad_output"];
}

/// The same of images, with a class for each pixel.
def Aten_NllLoss2dForwardOp : Aten_LossOp<"nll_loss2d_forward", "negative log likelihood of the target class of each pixel"> {
  let description = [{
    As `aten.nll_loss_forward`, with each pixel an example.

    Constraints:
    1. `self` is N x C x H x W with a floating-point dtype; `target` is N x H x W of dtype `i64`.
    2. `weight`, where present, has shape C and the dtype of `self`.
    3. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    4. The result has the shape of `target` for no reduction, else it is 0-d; it has the dtype of `self`.
    5. `total_weight` is 0-d with the dtype of `self`.

    ```mlir
    %0:2 = aten.nll_loss2d_forward(%x, %t, none, reduction = 1, ignore_index = -100)
        : (tensor<2x8x4x6xf32>, tensor<2x4x6xi64>) -> (tensor<f32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_OptTensor:$weight,
                       Aten_ReqInt:$reduction, Aten_ReqInt:$ignore_index);
  let results = (outs Aten_Tensor:$output, Aten_Tensor:$total_weight);
  let sharding = Aten_CustomSharding;
  let linear = ["self -> 0"];
  let lookUp = "{getTarget(), getSelf(), 1, int64_t(getIgnoreIndex())}";
}

def Aten_NllLoss2dBackwardOp : Aten_LossOp<"nll_loss2d_backward", "gradient of `nll_loss2d_forward`"> {
  let description = [{
    Constraints:
    1. `self` is N x C x H x W with a floating-point dtype; `target` is N x H x W of dtype `i64`.
    2. `weight`, where present, has shape C and the dtype of `self`.
    3. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    4. `grad_output` has the shape of `target` for no reduction, else it is 0-d; it has the dtype of `self`.
    5. `total_weight` is 0-d with the dtype of `self`.
    6. The result has the type of `self`.

    ```mlir
    %0 = aten.nll_loss2d_backward(%g, %x, %t, none, reduction = 1, ignore_index = -100, %total)
        : (tensor<f32>, tensor<2x8x4x6xf32>, tensor<2x4x6xi64>, tensor<f32>) -> tensor<2x8x4x6xf32>
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
// Margins between classes
//===----------------------------------------------------------------------===//

def Aten_MultiMarginLossOp : Aten_LossOp<"multi_margin_loss", "by how much classes come nearer to the target class than a margin"> {
  let description = [{
    The mean over the classes `i` other than the target class `t` of `weight[t] * max(0, margin - self[t] + self[i])^p`.

    Constraints:
    1. `self` is N x C, or C for a single example, with a floating-point dtype; `target` is N, for a single
       example 0-d or 1, of dtype `i64`.
    2. `weight`, where present, has shape C and the dtype of `self`.
    3. `p` is 1 (if absent) or 2, and `reduction` 0 (none), 1 (mean, if absent) or 2 (sum).
    4. The result has the shape of `target` for no reduction, else it is 0-d; it has the dtype of `self`.

    ```mlir
    %0 = aten.multi_margin_loss(%x, %t, p = 1, margin = 0.5, none, reduction = 1)
        : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_Scalar:$p, Aten_Scalar:$margin,
                       Aten_OptTensor:$weight, Aten_Int:$reduction);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
}

def Aten_MultiMarginLossBackwardOp : Aten_LossOp<"multi_margin_loss_backward", "gradient of `multi_margin_loss`"> {
  let description = [{
    Constraints:
    1. `self` is N x C, or C for a single example, with a floating-point dtype; `target` is N, for a single
       example 0-d or 1, of dtype `i64`.
    2. `weight`, where present, has shape C and the dtype of `self`.
    3. `p` is 1 or 2, and `reduction` 0 (none), 1 (mean, if absent) or 2 (sum).
    4. `grad_output` has the shape of `target` for no reduction, else it is 0-d; it has the dtype of `self`.
    5. The result has the type of `self`.

    ```mlir
    %0 = aten.multi_margin_loss_backward(%g, %x, %t, p = 1, margin = 0.5, none, reduction = 1)
        : (tensor<f32>, tensor<4x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target, Aten_ReqScalar:$p,
                       Aten_ReqScalar:$margin, Aten_OptTensor:$weight, Aten_Int:$reduction);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
}

//===----------------------------------------------------------------------===//
// Squared error
//===----------------------------------------------------------------------===//

def Aten_MseLossOp : Aten_LossOp<"mse_loss", "squared error"> {
  let description = [{
    Constraints:
    1. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    2. The shapes of `self` and `target` broadcast.
    3. The result has this shape if there is no reduction, else it is 0-d; it has the dtype to which
       PyTorch promotes the operands.

    ```mlir
    %0 = aten.mse_loss(%x, %t) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_Int:$reduction);
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
  let rows = Aten_ReducedRows;
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
  let rows = Aten_PointwiseRows;
  let linear = ["grad_output"];
}

//===----------------------------------------------------------------------===//
// Other elementwise losses
//===----------------------------------------------------------------------===//

/// `numbers`: the scalar arguments in the example.
class Aten_ElementLossOp<string mnemonic, string numbers, string meaning> : Aten_LossOp<mnemonic, meaning> {
  let description = [{
    Constraints:
    1. `reduction` is 0 (none), 1 (mean; the default) or 2 (sum).
    2. The shapes of the tensors broadcast.
    3. The result has this shape if there is no reduction, else it is 0-d; it has the dtype to which
       PyTorch promotes the tensors.

    ```mlir
    %0 = aten.}] # mnemonic # "(%x, %t, " # numbers # [{)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<f32>
    ```
  }];
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
}

class Aten_ElementLossBackwardOp<string mnemonic, string forward, string numbers>
    : Aten_LossOp<mnemonic, "gradient of `" # forward # "`"> {
  let description = [{
    Constraints:
    1. `reduction` is 0 (none), 1 (mean) or 2 (sum).
    2. The shapes of the operands broadcast.
    3. The result has this shape and the dtype of `self`.

    ```mlir
    %0 = aten.}] # mnemonic # "(%g, %x, %t, " # numbers # [{)
        : (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let results = (outs Aten_Tensor:$result);
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
}

def Aten_HuberLossOp : Aten_ElementLossOp<"huber_loss", "delta = 0.5", "half the squared error, linear beyond `delta`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_Int:$reduction, Aten_Float:$delta);
}
def Aten_HuberLossBackwardOp : Aten_ElementLossBackwardOp<"huber_loss_backward", "huber_loss", "reduction = 1, delta = 0.5"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target,
                       Aten_ReqInt:$reduction, Aten_ReqFloat:$delta);
}

def Aten_SmoothL1LossOp : Aten_ElementLossOp<"smooth_l1_loss", "beta = 0.5", "absolute error, quadratic below `beta`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_Int:$reduction, Aten_Float:$beta);
}
def Aten_SmoothL1LossBackwardOp
    : Aten_ElementLossBackwardOp<"smooth_l1_loss_backward", "smooth_l1_loss", "reduction = 1, beta = 0.5"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target,
                       Aten_ReqInt:$reduction, Aten_ReqFloat:$beta);
}

def Aten_SoftMarginLossOp : Aten_ElementLossOp<"soft_margin_loss", "reduction = 1", "`log(1 + exp(-target * self))`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_Int:$reduction);
}
def Aten_SoftMarginLossBackwardOp
    : Aten_ElementLossBackwardOp<"soft_margin_loss_backward", "soft_margin_loss", "reduction = 1"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target, Aten_ReqInt:$reduction);
}

def Aten_BinaryCrossEntropyOp
    : Aten_ElementLossOp<"binary_cross_entropy", "none, reduction = 1", "binary cross-entropy of probabilities"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_OptTensor:$weight, Aten_Int:$reduction);
}
def Aten_BinaryCrossEntropyBackwardOp
    : Aten_ElementLossBackwardOp<"binary_cross_entropy_backward", "binary_cross_entropy", "none, reduction = 1"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$target,
                       Aten_OptTensor:$weight, Aten_Int:$reduction);
}

def Aten_BinaryCrossEntropyWithLogitsOp
    : AtenOp<"binary_cross_entropy_with_logits", "aten::binary_cross_entropy_with_logits", [AttrSizedOperandSegments]> {
  let summary = "binary cross-entropy of logits";
  let description = [{
    Constraints:
    1. `reduction` is 0 (none), 1 (mean; the default) or 2 (sum).
    2. The shapes of the tensors broadcast.
    3. The result has this shape if there is no reduction, else it is 0-d; it has the dtype to which
       PyTorch promotes the tensors.

    ```mlir
    %0 = aten.binary_cross_entropy_with_logits(%x, %t, none, %w, reduction = 0)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$target, Aten_OptTensor:$weight,
                       Aten_OptTensor:$pos_weight, Aten_Int:$reduction);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_LOSS
