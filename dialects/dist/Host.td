//===- Host.td - copies to and from host memory -*- tablegen -*-===//

#ifndef CLEAVE_DIALECTS_DIST_HOST
#define CLEAVE_DIALECTS_DIST_HOST

include "dialects/dist/DistOps.td"

def Dist_OffloadOp : Dist_Op<"offload", [Pure]> {
  let summary = "copy a value to host memory";
  let description = [{
    Each rank copies what it holds; the placement is unchanged. The device's memory is free after the
    operand's last use, and `dist.reload` brings the value back, bit for bit.

    Constraints:
    1. The result is the host copy of the operand.

    ```mlir
    %h = dist.offload %0 : tensor<8xf32>
    %1 = dist.reload %h : tensor<8xf32>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input);
  let results = (outs Dist_HostType:$result);
  let assemblyFormat = "$input attr-dict `:` custom<HostOf>(type($result), type($input))";
  let hasVerifier = 1;
}

def Dist_ReloadOp : Dist_Op<"reload", [Pure]> {
  let summary = "copy a value from host memory to the device";
  let description = [{
    Constraints:
    1. The operand is a host copy of the result.

    ```mlir
    %h = dist.offload %0 : tensor<8xf32, #S0_tp>
    %1 = dist.reload %h : tensor<8xf32, #S0_tp>
    ```
  }];
  let arguments = (ins Dist_HostType:$input);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` custom<HostOf>(type($input), type($result))";
  let hasVerifier = 1;
}

#endif // CLEAVE_DIALECTS_DIST_HOST
