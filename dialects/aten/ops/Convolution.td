//===- Convolution.td - convolution and its gradients -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_CONVOLUTION
#define CLEAVE_DIALECTS_ATEN_OPS_CONVOLUTION

include "dialects/aten/AtenBase.td"

def Aten_ConvolutionOp : AtenOp<"convolution", "aten::convolution"> {
  let summary = "convolution over any number of spatial dimensions, or its transpose";
  let description = [{
    With D spatial dimensions, `stride`, `padding`, `dilation` and `output_padding` have D elements, or
    one for all dimensions.

    Constraints:
    1. `input` is N x C x (D sizes) and `weight` has as many dimensions; D is 1, 2 or 3. `input`,
       `weight` and `bias` have the same dtype.
    2. `groups` is at least 1 and divides C and the number of output channels O. `weight` is
       O x C/groups x (kernel), or C x O/groups x (kernel) if `transposed` is set.
    3. `bias`, if present, has shape O.
    4. Strides and dilations are at least 1, paddings at least 0, and the kernel fits the input.
    5. The result is N x O x (output sizes), with the same dtype.

    ```mlir
    %0 = aten.convolution(%x, %w, none, stride = [2, 2], padding = [1, 1], dilation = [1, 1],
                          transposed = false, output_padding = [0, 0], groups = 1)
        : (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>) -> tensor<2x16x4x4xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$input, Aten_Tensor:$weight, Aten_OptTensor:$bias,
                       Aten_ReqInts:$stride, Aten_ReqInts:$padding, Aten_ReqInts:$dilation,
                       Aten_ReqBool:$transposed, Aten_ReqInts:$output_padding, Aten_ReqInt:$groups);
  let results = (outs Aten_Tensor:$result);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let flops = "countConvolutionFlops(getResult(), getWeight())";
  let linear = ["input, bias", "weight, bias"];
  let mixes = 1;
}

def Aten_ConvolutionBackwardOp : AtenOp<"convolution_backward", "aten::convolution_backward"> {
  let summary = "gradients of `convolution`";
  let description = [{
    Constraints:
    1. `input` is N x C x (D sizes) and `weight` has as many dimensions; D is 1, 2 or 3. `input`,
       `weight` and `grad_output` have the same dtype.
    2. `groups` is at least 1 and divides C and the number of output channels O. `weight` is
       O x C/groups x (kernel), or C x O/groups x (kernel) if `transposed` is set.
    3. Strides and dilations are at least 1, paddings at least 0, and the kernel fits the input.
    4. `grad_output` is N x O x (output sizes).
    5. `output_mask` has three elements; where an element is false, the corresponding result has type
       `none`.
    6. The results are the gradients of `input`, `weight` and `bias`: the first two have their types,
       the last one shape O and the same dtype.

    ```mlir
    %0:3 = aten.convolution_backward(%g, %x, %w, bias_sizes = [0], stride = [2, 2],
                                     padding = [1, 1], dilation = [1, 1], transposed = false,
                                     output_padding = [0, 0], groups = 1,
                                     output_mask = [true, true, false])
        : (tensor<2x16x4x4xf32>, tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>)
        -> (tensor<2x3x8x8xf32>, tensor<16x3x3x3xf32>, none)
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$input, Aten_Tensor:$weight,
                       Aten_Ints:$bias_sizes, Aten_ReqInts:$stride, Aten_ReqInts:$padding,
                       Aten_ReqInts:$dilation, Aten_ReqBool:$transposed,
                       Aten_ReqInts:$output_padding, Aten_ReqInt:$groups,
                       Aten_ReqBools:$output_mask);
  let results = (outs Aten_MaybeTensor:$grad_input, Aten_MaybeTensor:$grad_weight,
                      Aten_MaybeTensor:$grad_bias);
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
  let flops = "countConvolutionBackwardFlops(getGradOutput(), getWeight(), getOperation()->getResults())";
  let linear = ["grad_output", "input -> 1", "weight -> 0"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_CONVOLUTION
