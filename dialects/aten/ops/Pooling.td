//===- Pooling.td - windows of images and pooling over them -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_ATEN_OPS_POOLING
#define CLEAVE_DIALECTS_ATEN_OPS_POOLING

include "dialects/aten/AtenBase.td"

class Aten_PoolingOp<string mnemonic, string meaning> : AtenOp<mnemonic, "aten::" # mnemonic> {
  let summary = meaning;
  let hasVerifier = 1;
  let sharding = Aten_CustomSharding;
}

def Aten_MaxPool2dWithIndicesOp : Aten_PoolingOp<"max_pool2d_with_indices", "largest element of each window, and its index"> {
  let description = [{
    Each list has two elements (height, width), or one for both. `stride` defaults to `kernel_size`,
    also if empty. `indices` are positions in an image, in row-major order.

    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. Kernel, strides and dilations are at least 1; paddings are at least 0 and at most half the
       kernel.
    3. The result has the shape of `self` with the number of windows as last two sizes: along each,
       `floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1`, with `ceil_mode`
       rounded up where the last window starts within the image or its left padding. It has the
       dtype of `self`.
    4. `indices` has the same shape and dtype `i64`.

    ```mlir
    %0:2 = aten.max_pool2d_with_indices(%x, kernel_size = [3, 3], stride = [2, 2], padding = [1, 1])
        : (tensor<2x4x16x16xf32>) -> (tensor<2x4x8x8xf32>, tensor<2x4x8x8xi64>)
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$kernel_size, Aten_Ints:$stride,
                       Aten_Ints:$padding, Aten_Ints:$dilation, Aten_Bool:$ceil_mode);
  let results = (outs Aten_Tensor:$result, Aten_Tensor:$indices);
}

def Aten_MaxPool2dWithIndicesBackwardOp
    : Aten_PoolingOp<"max_pool2d_with_indices_backward", "gradient of `max_pool2d_with_indices`"> {
  let description = [{
    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. Kernel, strides and dilations are at least 1; paddings are at least 0 and at most half the
       kernel.
    3. `grad_output` and `indices` have the shape of the forward op's result; `indices` has dtype
       `i64`.
    4. The result has the type of `self`.

    ```mlir
    %0 = aten.max_pool2d_with_indices_backward(%g, %x, kernel_size = [3, 3], stride = [2, 2],
                                               padding = [1, 1], dilation = [1, 1],
                                               ceil_mode = false, %i)
        : (tensor<2x4x8x8xf32>, tensor<2x4x16x16xf32>, tensor<2x4x8x8xi64>)
        -> tensor<2x4x16x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqInts:$kernel_size,
                       Aten_ReqInts:$stride, Aten_ReqInts:$padding, Aten_ReqInts:$dilation,
                       Aten_ReqBool:$ceil_mode, Aten_Tensor:$indices);
  let results = (outs Aten_Tensor:$result);
  let linear = ["grad_output"];
}

def Aten_AdaptiveAvgPool2dOp : Aten_PoolingOp<"_adaptive_avg_pool2d", "means of windows that tile the image, for a given output size"> {
  let description = [{
    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. `output_size` has two elements, each at least 0.
    3. The result has the shape of `self` with `output_size` as last two sizes, and its dtype.

    ```mlir
    %0 = aten._adaptive_avg_pool2d(%x, output_size = [2, 2])
        : (tensor<2x4x7x7xf32>) -> tensor<2x4x2x2xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$output_size);
  let results = (outs Aten_Tensor:$result);
  let linear = ["self"];
}

def Aten_AdaptiveAvgPool2dBackwardOp : Aten_PoolingOp<"_adaptive_avg_pool2d_backward", "gradient of `_adaptive_avg_pool2d`"> {
  let description = [{
    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. `grad_output` has the shape of `self` except for the last two sizes, and its dtype.
    3. The result has the type of `self`.

    ```mlir
    %0 = aten._adaptive_avg_pool2d_backward(%g, %x)
        : (tensor<2x4x2x2xf32>, tensor<2x4x7x7xf32>) -> tensor<2x4x7x7xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self);
  let results = (outs Aten_Tensor:$result);
  let linear = ["grad_output"];
}

def Aten_AvgPool2dOp : Aten_PoolingOp<"avg_pool2d", "mean of each window"> {
  let description = [{
    Each list has two elements (height, width), or one for both. `stride` defaults to `kernel_size`,
    also if empty. The sum is divided by `divisor_override`, if given, else by the size of the window,
    which includes padding if `count_include_pad` is true (the default).

    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. Kernel and strides are at least 1; paddings are at least 0 and at most half the kernel.
    3. `divisor_override` is not 0.
    4. The result has the shape of `self` with the number of windows as last two sizes, counted as for
       `aten.max_pool2d_with_indices`, and its dtype.

    ```mlir
    %0 = aten.avg_pool2d(%x, kernel_size = [2, 2], stride = [2, 2])
        : (tensor<2x4x16x16xf32>) -> tensor<2x4x8x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$kernel_size, Aten_Ints:$stride, Aten_Ints:$padding,
                       Aten_Bool:$ceil_mode, Aten_Bool:$count_include_pad, Aten_Int:$divisor_override);
  let results = (outs Aten_Tensor:$result);
  let linear = ["self"];
}

def Aten_AvgPool2dBackwardOp : Aten_PoolingOp<"avg_pool2d_backward", "gradient of `avg_pool2d`"> {
  let description = [{
    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. Kernel and strides are at least 1; paddings are at least 0 and at most half the kernel.
    3. `divisor_override` is not 0.
    4. `grad_output` has the shape of the forward op's result, and the dtype of `self`.
    5. The result has the type of `self`.

    ```mlir
    %0 = aten.avg_pool2d_backward(%g, %x, kernel_size = [2, 2], stride = [2, 2], padding = [0, 0],
                                  ceil_mode = false, count_include_pad = true)
        : (tensor<2x4x8x8xf32>, tensor<2x4x16x16xf32>) -> tensor<2x4x16x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$grad_output, Aten_Tensor:$self, Aten_ReqInts:$kernel_size,
                       Aten_ReqInts:$stride, Aten_ReqInts:$padding, Aten_ReqBool:$ceil_mode,
                       Aten_ReqBool:$count_include_pad, Aten_Int:$divisor_override);
  let results = (outs Aten_Tensor:$result);
  let linear = ["grad_output"];
}

def Aten_Im2colOp : Aten_PoolingOp<"im2col", "the windows of images as columns: `torch.nn.functional.unfold`"> {
  let description = [{
    Each list has two elements: height, width.

    Constraints:
    1. `self` is N x C x H x W or C x H x W.
    2. Kernel, strides and dilations are at least 1; paddings are 0 or more.
    3. The result has the shape of `self` with two sizes in place of the last three: C times the elements of a
       window, and the number of windows, counted as for `aten.max_pool2d_with_indices`. It has the dtype of
       `self`.

    ```mlir
    %0 = aten.im2col(%x, kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2])
        : (tensor<2x4x8x8xf32>) -> tensor<2x24x16xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$kernel_size, Aten_ReqInts:$dilation,
                       Aten_ReqInts:$padding, Aten_ReqInts:$stride);
  let results = (outs Aten_Tensor:$result);
  let linear = ["self"];
}

def Aten_Col2imOp : Aten_PoolingOp<"col2im", "images as sums of their windows: `torch.nn.functional.fold`"> {
  let description = [{
    Each list has two elements: height, width.

    Constraints:
    1. The result is N x C x H x W or C x H x W with `output_size` as last two sizes, and the dtype of `self`.
    2. Kernel, strides and dilations are at least 1; paddings are 0 or more.
    3. `self` has the shape that `aten.im2col` gives for the result.

    ```mlir
    %0 = aten.col2im(%x, output_size = [8, 8], kernel_size = [3, 2], dilation = [1, 1], padding = [1, 0], stride = [2, 2])
        : (tensor<2x24x16xf32>) -> tensor<2x4x8x8xf32>
    ```
  }];
  let arguments = (ins Aten_Tensor:$self, Aten_ReqInts:$output_size, Aten_ReqInts:$kernel_size,
                       Aten_ReqInts:$dilation, Aten_ReqInts:$padding, Aten_ReqInts:$stride);
  let results = (outs Aten_Tensor:$result);
  let linear = ["self"];
}

#endif // CLEAVE_DIALECTS_ATEN_OPS_POOLING
