//===- Activation.td - activation functions and their gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION
#define CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION

include "dialects/aten/ops/PointwiseBase.td"

def Aten_ReluOp : Aten_UnaryOp<"relu", Aten_LikeSelf, "`max(self, 0)`">;
def Aten_SiluOp : Aten_UnaryOp<"silu", Aten_LikeSelf, "`self * sigmoid(self)`">;
def Aten_SigmoidOp : Aten_UnaryOp<"sigmoid", Aten_Floating, "`1 / (1 + exp(-self))`">;
def Aten_TanhOp : Aten_UnaryOp<"tanh", Aten_Floating, "hyperbolic tangent">;

def Aten_GeluOp : AtenOp<"gelu", "aten::gelu"> {
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
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
}

def Aten_GeluBackwardOp : AtenOp<"gelu_backward", "aten::gelu_backward"> {
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
  let linear = ["grad_output"];
}

def Aten_SiluBackwardOp : Aten_BackwardOp<"silu_backward", "silu", "self"> {
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self);
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

#endif // CLEAVE_DIALECTS_ATEN_OPS_ACTIVATION
