// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: exec.kernel @add_gelu(%arg0: tensor<8x32xf32>, %arg1: tensor<32xf32>) -> tensor<8x32xf32> {
// CHECK-NEXT:    %0 = aten.add(%arg0, %arg1)
// CHECK-NEXT:    %1 = aten.gelu(%0)
// CHECK-NEXT:    exec.return %1 : tensor<8x32xf32>
exec.kernel @add_gelu(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  %0 = aten.add(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %1 = aten.gelu(%0) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  exec.return %1 : tensor<8x32xf32>
}

// CHECK-LABEL: func.func @f
func.func @f(%x: tensor<8x32xf32>, %b: tensor<32xf32>) -> tensor<8x32xf32> {
  // CHECK: exec.launch @add_gelu(%arg0, %arg1) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  %0 = exec.launch @add_gelu(%x, %b) : (tensor<8x32xf32>, tensor<32xf32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

dist.mesh @mesh ["dp" = 2]
// A launch may be of placed tensors: the kernel computes on what one rank holds.
// CHECK-LABEL: func.func @placed
func.func @placed(%x: tensor<8x32xf32, #dist.on<@mesh, dp = S(0)>>, %b: tensor<32xf32, #dist.on<@mesh, dp = R>>)
    -> tensor<8x32xf32, #dist.on<@mesh, dp = S(0)>> {
  // CHECK: exec.launch @add_gelu(%arg0, %arg1) : (tensor<8x32xf32, #S0_dp>, tensor<32xf32, #R_dp>) -> tensor<8x32xf32, #S0_dp>
  %0 = exec.launch @add_gelu(%x, %b) : (tensor<8x32xf32, #dist.on<@mesh, dp = S(0)>>, tensor<32xf32, #dist.on<@mesh, dp = R>>)
      -> tensor<8x32xf32, #dist.on<@mesh, dp = S(0)>>
  return %0 : tensor<8x32xf32, #dist.on<@mesh, dp = S(0)>>
}
