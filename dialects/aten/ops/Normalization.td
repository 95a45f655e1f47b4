//===- Normalization.td - layer, group and batch normalization and their gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_NORMALIZATION
#define CLEAVE_DIALECTS_ATEN_OPS_NORMALIZATION

include "dialects/aten/AtenBase.td"

//===----------------------------------------------------------------------===//
// Layer normalization
//===----------------------------------------------------------------------===//

def Aten_NativeLayerNormOp : AtenOp<"native_layer_norm", "aten::native_layer_norm", [AttrSizedOperandSegments]> {
  let summary = "normalization over the last dimensions";
  let description = [{
    `(input - mean) * rstd * weight + bias`, where `mean` and `rstd = 1 / sqrt(var + eps)` are computed
    for each slice of shape `normalized_shape`.

    Constraints:
    1. `input` has a floating-point dtype, and its shape ends with `normalized_shape`, which is not
       empty.
    2. `weight` and `bias`, if present, have shape `normalized_shape`.
    3. The first result has the type of `input`.
    4. `mean` and `rstd` have the shape of `input` with 1 for the normalized dimensions, and the
       dtype of `input`, or `f32` if that is `f16` or `bf16`.

    ```mlir
    %0:3 = aten.native_layer_norm(%x, normalized_shape = [8], %w, %b, eps = 1.0e-05)
        : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$input, Aten_ReqInts:$normalized_shape, Aten_OptTensor:$weight,
                       Aten_OptTensor:$bias, Aten_ReqFloat:$eps);
  let results = (outs Aten_Tensor:$result, Aten_Tensor:$mean, Aten_Tensor:$rstd);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let rows = Aten_WholeRows;
}

def Aten_NativeLayerNormBackwardOp
    : AtenOp<"native_layer_norm_backward", "aten::native_layer_norm_backward", [AttrSizedOperandSegments]> {
  let summary = "gradients of `native_layer_norm`";
  let description = [{
    Constraints:
    1. `input` has a floating-point dtype, and its shape ends with `normalized_shape`, which is not
       empty.
    2. `weight` and `bias`, if present, have shape `normalized_shape`.
    3. `grad_out` has the shape of `input`.
    4. `mean` and `rstd` have the shape of `input` with 1 for the normalized dimensions.
    5. `output_mask` has three elements; where an element is false, the corresponding result has type
       `none`.
    6. The results are the gradients of `input`, `weight` and `bias` and have their types; the gradient
       of an absent `weight` or `bias` has shape `normalized_shape` and the dtype of `input`.

    ```mlir
    %0:3 = aten.native_layer_norm_backward(%g, %x, normalized_shape = [8], %mean, %rstd, %w, %b,
                                           output_mask = [true, true, true])
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<8xf32>,
           tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_out, Aten_Tensor:$input, Aten_ReqInts:$normalized_shape,
                       Aten_Tensor:$mean, Aten_Tensor:$rstd, Aten_OptTensor:$weight,
                       Aten_OptTensor:$bias, Aten_ReqBools:$output_mask);
  let results = (outs Aten_MaybeTensor:$grad_input, Aten_MaybeTensor:$grad_weight,
                      Aten_MaybeTensor:$grad_bias);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let rows = Aten_WholeRows;
  let linear = ["grad_out"];
}

//===----------------------------------------------------------------------===//
// Group normalization
//===----------------------------------------------------------------------===//

def Aten_NativeGroupNormOp : AtenOp<"native_group_norm", "aten::native_group_norm", [AttrSizedOperandSegments]> {
  let summary = "normalization over groups of channels of each example";
  let description = [{
    `(input - mean) * rstd * weight + bias`, where `mean` and `rstd = 1 / sqrt(var + eps)` are computed
    for each group of `C / group` channels of an example.

    Constraints:
    1. `input` has a floating-point dtype; its first two sizes are `N` and `C`, and the product of the
       others is `HxW`.
    2. `group` is at least 1 and divides `C`.
    3. `weight` and `bias`, if present, have shape C.
    4. The first result has the type of `input`.
    5. `mean` and `rstd` are `N` x `group`, with the dtype of `input`, or `f32` if that is `f16` or
       `bf16`.

    ```mlir
    %0:3 = aten.native_group_norm(%x, %w, %b, N = 2, C = 8, HxW = 16, group = 4, eps = 1.0e-05)
        : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$input, Aten_OptTensor:$weight, Aten_OptTensor:$bias, Aten_ReqInt:$N,
                       Aten_ReqInt:$C, Aten_ReqInt:$HxW, Aten_ReqInt:$group, Aten_ReqFloat:$eps);
  let results = (outs Aten_Tensor:$result, Aten_Tensor:$mean, Aten_Tensor:$rstd);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_NativeGroupNormBackwardOp : AtenOp<"native_group_norm_backward", "aten::native_group_norm_backward"> {
  let summary = "gradients of `native_group_norm`";
  let description = [{
    Constraints:
    1. `input` has a floating-point dtype; its first two sizes are `N` and `C`, and the product of the
       others is `HxW`.
    2. `group` is at least 1 and divides `C`.
    3. `weight`, if present, has shape C.
    4. `grad_out` has the shape of `input`; `mean` and `rstd` are `N` x `group`.
    5. `output_mask` has three elements; where an element is false, the corresponding result has type
       `none`.
    6. The results are the gradients of `input`, `weight` and `bias`: the first has the type of
       `input`, the others have shape C and the dtype of `weight`, or of `input` if there is none.

    ```mlir
    %0:3 = aten.native_group_norm_backward(%g, %x, %mean, %rstd, %w, N = 2, C = 8, HxW = 16, group = 4,
                                           output_mask = [true, true, true])
        : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<8xf32>)
        -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_out, Aten_Tensor:$input, Aten_Tensor:$mean, Aten_Tensor:$rstd,
                       Aten_OptTensor:$weight, Aten_ReqInt:$N, Aten_ReqInt:$C, Aten_ReqInt:$HxW,
                       Aten_ReqInt:$group, Aten_ReqBools:$output_mask);
  let results = (outs Aten_MaybeTensor:$grad_input, Aten_MaybeTensor:$grad_weight,
                      Aten_MaybeTensor:$grad_bias);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["grad_out"];
}

//===----------------------------------------------------------------------===//
// Batch normalization
//===----------------------------------------------------------------------===//

def Aten_NativeBatchNormLegitFunctionalOp
    : AtenOp<"_native_batch_norm_legit_functional", "aten::_native_batch_norm_legit_functional",
             [AttrSizedOperandSegments]> {
  let summary = "batch normalization that returns the updated running statistics";
  let description = [{
    In training, the input is normalized by the batch's mean and variance, and the running statistics
    move towards them by `momentum`. Otherwise it is normalized by the running statistics, which are
    returned unchanged.

    Constraints:
    1. `input` has a floating-point dtype and at least two dimensions; C is the size of dimension 1.
    2. `weight`, `bias`, `running_mean` and `running_var`, if present, have shape C.
    3. The first result has the type of `input`.
    4. `save_mean` and `save_invstd` have shape C in training, else 0, and the dtype of `running_mean`,
       or `f32` if that is `f16` or `bf16`. (Under autocast, `input` has half precision and all
       per-channel tensors are `f32`.)
    5. The last two results have the types of `running_mean` and `running_var`.

    ```mlir
    %0:5 = aten._native_batch_norm_legit_functional(%x, %w, %b, %mean, %var, training = true,
                                                    momentum = 0.1, eps = 1.0e-05)
        : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$input, Aten_OptTensor:$weight, Aten_OptTensor:$bias,
                       Aten_Tensor:$running_mean, Aten_Tensor:$running_var, Aten_ReqBool:$training,
                       Aten_ReqFloat:$momentum, Aten_ReqFloat:$eps);
  let results = (outs Aten_Tensor:$result, Aten_Tensor:$save_mean, Aten_Tensor:$save_invstd,
                      Aten_Tensor:$running_mean_out, Aten_Tensor:$running_var_out);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_NativeBatchNormLegitNoTrainingOp
    : AtenOp<"_native_batch_norm_legit_no_training", "aten::_native_batch_norm_legit_no_training",
             [AttrSizedOperandSegments]> {
  let summary = "batch normalization by the running statistics";
  let description = [{
    Constraints:
    1. `input` has a floating-point dtype and at least two dimensions; C is the size of dimension 1.
    2. `weight`, `bias`, `running_mean` and `running_var`, if present, have shape C.
    3. The first result has the type of `input`.
    4. `save_mean` and `save_invstd` have shape 0 and the dtype of `running_mean`, or `f32` if that is
       `f16` or `bf16`.

    ```mlir
    %0:3 = aten._native_batch_norm_legit_no_training(%x, none, none, %mean, %var, momentum = 0.1,
                                                     eps = 1.0e-05)
        : (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
        -> (tensor<2x8x4x4xf32>, tensor<0xf32>, tensor<0xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$input, Aten_OptTensor:$weight, Aten_OptTensor:$bias,
                       Aten_Tensor:$running_mean, Aten_Tensor:$running_var,
                       Aten_ReqFloat:$momentum, Aten_ReqFloat:$eps);
  let results = (outs Aten_Tensor:$result, Aten_Tensor:$save_mean, Aten_Tensor:$save_invstd);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_NativeBatchNormBackwardOp
    : AtenOp<"native_batch_norm_backward", "aten::native_batch_norm_backward", [AttrSizedOperandSegments]> {
  let summary = "gradients of batch normalization";
  let description = [{
    Constraints:
    1. `input` has a floating-point dtype and at least two dimensions; C is the size of dimension 1.
    2. `weight`, `running_mean` and `running_var`, if present, have shape C, and in training
       `save_mean` and `save_invstd` too.
    3. `grad_out` has the shape of `input`.
    4. `output_mask` has three elements; where an element is false, the corresponding result has type
       `none`.
    5. The results are the gradients of `input`, `weight` and `bias`: the first has the type of
       `input`, the others have shape C and the dtype of `weight`, or of `input` if there is none.

    ```mlir
    %0:3 = aten.native_batch_norm_backward(%g, %x, %w, %mean, %var, %save_mean, %save_invstd,
                                           train = true, eps = 1.0e-05,
                                           output_mask = [true, true, true])
        : (tensor<2x8x4x4xf32>, tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>,
           tensor<8xf32>, tensor<8xf32>) -> (tensor<2x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_out, Aten_Tensor:$input, Aten_OptTensor:$weight,
                       Aten_OptTensor:$running_mean, Aten_OptTensor:$running_var,
                       Aten_OptTensor:$save_mean, Aten_OptTensor:$save_invstd, Aten_ReqBool:$train,
                       Aten_ReqFloat:$eps, Aten_ReqBools:$output_mask);
  let results = (outs Aten_MaybeTensor:$grad_input, Aten_MaybeTensor:$grad_weight,
                      Aten_MaybeTensor:$grad_bias);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["grad_out"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_NORMALIZATION
