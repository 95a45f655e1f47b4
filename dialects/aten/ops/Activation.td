//===- Activation.td - activation functions and their gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION
#define CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION

include "dialects/aten/ops/PointwiseBase.td"

def Aten_ReluOp : Aten_UnaryOp<"relu", Aten_LikeSelf, "`max(self, 0)`"> {
  let pointwiseOut = 0;
}
def Aten_SiluOp : Aten_UnaryOp<"silu", Aten_LikeSelf, "`self * sigmoid(self)`"> {
  let rows = Aten_LongPointwiseRows;
}
def Aten_SigmoidOp : Aten_UnaryOp<"sigmoid", Aten_Floating, "`1 / (1 + exp(-self))`">;
def Aten_TanhOp : Aten_UnaryOp<"tanh", Aten_Floating, "hyperbolic tangent">;

def Aten_GeluOp : AtenOp<"gelu", "aten::gelu", [Pointwise]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    Constraints:
    1. `self` has a floating-point dtype.
    2. `approximate` is "none" or "tanh".
    3. The result has the type of `self`.

    ```mlir
    %0 = aten.gelu(%x, approximate = "tanh") : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Str:$approximate);
  let sharding = Aten_PointwiseSharding;
  let rows = Aten_LongPointwiseRows;
  let pointwiseOut = 1;
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
}

def Aten_GeluBackwardOp : AtenOp<"gelu_backward", "aten::gelu_backward", [Pointwise]> {
  let summary = "gradient of `gelu`";
  let description = [{
    Constraints:
    1. `self` has a floating-point dtype.
    2. `approximate` is "none" or "tanh".
    3. `grad_output` and the result have the type of `self`.

    ```mlir
    %0 = aten.gelu_backward(%g, %x, approximate = "tanh")
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Str:$approximate);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let rows = Aten_LongPointwiseRows;
  let pointwiseOut = 1;
  let linear = ["grad_output"];
}

def Aten_SiluBackwardOp : Aten_BackwardOp<"silu_backward", "silu", "self"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self);
  let rows = Aten_LongPointwiseRows;
}
def Aten_SigmoidBackwardOp : Aten_BackwardOp<"sigmoid_backward", "sigmoid", "output"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$output);
}
def Aten_TanhBackwardOp : Aten_BackwardOp<"tanh_backward", "tanh", "output"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$output);
}

def Aten_ThresholdBackwardOp
    : Aten_PointwiseOp<"threshold_backward", "aten::threshold_backward", Aten_Promoted> {
  let summary = "`grad_output` where `self > threshold`, else 0: the gradient of `relu`";
  let description = [{
    Constraints:
    1. The shapes of the operands broadcast to that of the result.
    2. The result has the dtype to which PyTorch promotes the operands.

    ```mlir
    %0 = aten.threshold_backward(%g, %y, threshold = 0)
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqScalar:$threshold);
  let linear = ["grad_output"];
}

//===----------------------------------------------------------------------===//
// With scalar parameters, or piecewise
//===----------------------------------------------------------------------===//

def Aten_SoftplusOp : Aten_NumbersOp<"softplus", "beta = 2.0",
    "`log(1 + exp(beta * self)) / beta`, `self` where `beta * self > threshold`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$beta, Aten_Scalar:$threshold);
}
def Aten_SoftplusBackwardOp
    : Aten_NumbersBackwardOp<"softplus_backward", "softplus", "self", "%g, %x, beta = 1, threshold = 20"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqScalar:$beta, Aten_ReqScalar:$threshold);
}

def Aten_LeakyReluOp : Aten_NumbersOp<"leaky_relu", "negative_slope = 0.2",
    "`self` where it is positive, else `negative_slope * self`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$negative_slope);
}
def Aten_LeakyReluBackwardOp
    : Aten_NumbersBackwardOp<"leaky_relu_backward", "leaky_relu", "self", "%g, %x, negative_slope = 0.01, self_is_result = false"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqScalar:$negative_slope,
                       Aten_ReqBool:$self_is_result);
}

def Aten_EluOp : Aten_NumbersOp<"elu", "alpha = 1.5",
    "`scale` times `self` where it is positive, else times `alpha * (exp(input_scale * self) - 1)`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$alpha, Aten_Scalar:$scale, Aten_Scalar:$input_scale);
}
def Aten_EluBackwardOp
    : Aten_NumbersBackwardOp<"elu_backward", "elu", "self_or_result",
                             "%g, alpha = 1, scale = 1, input_scale = 1, is_result = false, %x"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_ReqScalar:$alpha, Aten_ReqScalar:$scale,
                       Aten_ReqScalar:$input_scale, Aten_ReqBool:$is_result, Aten_Tensor:$self_or_result);
}

/// `elu` with `scale` 1 and `input_scale` 1 / `alpha`.
def Aten_CeluOp : Aten_NumbersOp<"celu", "alpha = 1.5",
    "`self` if positive, else `alpha * (exp(self / alpha) - 1)`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$alpha);
  let pointwiseOut = 0;
}

def Aten_HardtanhOp : Aten_NumbersOp<"hardtanh", "min_val = 0, max_val = 6", "`self` clamped to `min_val` and `max_val`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$min_val, Aten_Scalar:$max_val);
}
def Aten_HardtanhBackwardOp
    : Aten_NumbersBackwardOp<"hardtanh_backward", "hardtanh", "self", "%g, %x, min_val = 0, max_val = 6"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqScalar:$min_val, Aten_ReqScalar:$max_val);
}

def Aten_SoftshrinkOp : Aten_NumbersOp<"softshrink", "lambd = 0.3", "`self` moved towards 0 by `lambd`; 0 where `abs(self) <= lambd`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$lambd);
}
def Aten_SoftshrinkBackwardOp
    : Aten_NumbersBackwardOp<"softshrink_backward", "softshrink", "self", "%g, %x, lambd = 0.3"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqScalar:$lambd);
}

def Aten_HardshrinkOp : Aten_NumbersOp<"hardshrink", "lambd = 0.3", "`self` if its absolute value exceeds `lambd`, else 0"> {
  let arguments = (ins Aten_Tensor:$self, Aten_Scalar:$lambd);
}
def Aten_HardshrinkBackwardOp
    : Aten_NumbersBackwardOp<"hardshrink_backward", "hardshrink", "self", "%g, %x, lambd = 0.3"> {
  let arguments = (ins Aten_Tensor:$grad_out, Aten_Tensor:$self, Aten_ReqScalar:$lambd);
  let linear = ["grad_out"];
}

def Aten_ThresholdOp : Aten_NumbersOp<"threshold", "threshold = 0.1, value = 20", "`self` where it is above `threshold`, else `value`"> {
  let arguments = (ins Aten_Tensor:$self, Aten_ReqScalar:$threshold, Aten_ReqScalar:$value);
}

def Aten_HardswishOp : Aten_UnaryOp<"hardswish", Aten_LikeSelf, "`self` times `min(max(self + 3, 0), 6) / 6`">;
def Aten_HardswishBackwardOp : Aten_BackwardOp<"hardswish_backward", "hardswish", "self"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self);
  let pointwiseOut = 0;
}
def Aten_HardsigmoidOp : Aten_UnaryOp<"hardsigmoid", Aten_LikeSelf, "`min(max(self + 3, 0), 6) / 6`">;
def Aten_HardsigmoidBackwardOp : Aten_BackwardOp<"hardsigmoid_backward", "hardsigmoid", "self"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self);
}
def Aten_MishOp : Aten_UnaryOp<"mish", Aten_LikeSelf, "`self * tanh(softplus(self))`">;
def Aten_MishBackwardOp : Aten_BackwardOp<"mish_backward", "mish", "self"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self);
  let pointwiseOut = 0;
}

//===----------------------------------------------------------------------===//
// With several tensors or several results
//===----------------------------------------------------------------------===//

def Aten_LogSigmoidForwardOp : AtenOp<"log_sigmoid_forward", "aten::log_sigmoid_forward"> {
  let summary = "`log(sigmoid(self))`, and a buffer for its gradient";
  let description = [{
    Constraints:
    1. `self` has a floating-point dtype.
    2. Both results have the type of `self`.

    ```mlir
    %0:2 = aten.log_sigmoid_forward(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$output, Aten_Tensor:$buffer);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
}

def Aten_LogSigmoidBackwardOp : Aten_BackwardOp<"log_sigmoid_backward", "log_sigmoid_forward", "buffer"> {
  let description = [{
    Constraints:
    1. The shapes of the operands broadcast to that of the result.
    2. The result has the dtype to which PyTorch promotes the operands.

    ```mlir
    %0 = aten.log_sigmoid_backward(%g, %x, %b)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$buffer);
}

def Aten_PreluKernelOp : Aten_PointwiseOp<"_prelu_kernel", "aten::_prelu_kernel", Aten_LikeSelf> {
  let summary = "`self` where it is positive, else `weight * self`";
  let description = [{
    Constraints:
    1. `weight` broadcasts to the shape of `self`, which is also that of the result.
    2. The result has the dtype of `self`.

    ```mlir
    %0 = aten._prelu_kernel(%x, %w) : (tensor<4x8xf32>, tensor<1x1xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Tensor:$weight);
  let pointwiseOut = 0;
}

def Aten_PreluKernelBackwardOp : AtenOp<"_prelu_kernel_backward", "aten::_prelu_kernel_backward"> {
  let summary = "gradients of `_prelu_kernel`; that of `weight` is not yet reduced to its shape";
  let description = [{
    Constraints:
    1. `grad_output` has the shape of `self`, to which `weight` broadcasts.
    2. The results have the type of `self`.

    ```mlir
    %0:2 = aten._prelu_kernel_backward(%g, %x, %w)
        : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x1xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_Tensor:$weight);
  let results = (outs Aten_Tensor:$grad_input, Aten_Tensor:$grad_weight);
  let hasVerifier = 1;
  let sharding = Aten_PointwiseSharding;
  let linear = ["grad_output"];
}

def Aten_GluOp : AtenOp<"glu", "aten::glu"> {
  let summary = "the first half of a dimension times the sigmoid of the second";
  let description = [{
    Constraints:
    1. `self` has a floating-point dtype, and `dim` (default: the last one) is a dimension of even size.
    2. The result has the shape of `self` with `dim` halved, and its dtype.

    ```mlir
    %0 = aten.glu(%x, dim = 1) : (tensor<4x8xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_Int:$dim);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_GluBackwardOp : AtenOp<"glu_backward", "aten::glu_backward"> {
  let summary = "gradient of `glu`";
  let description = [{
    Constraints:
    1. `self` has a floating-point dtype, and `dim` is a dimension of even size.
    2. `grad_output` has the shape of `self` with `dim` halved, and its dtype.
    3. The result has the type of `self`.

    ```mlir
    %0 = aten.glu_backward(%g, %x, dim = 1) : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqInt:$dim);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let linear = ["grad_output"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION
