// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#I_I = #dist.on<@mesh, cp = I, tp = I>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.fake_scatter(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>{{$}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<8xf32, #I>, %b: tensor<12xf32, #I_I>) {
  // CHECK: dist.fake_scatter(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #I_tp> -> tensor<4xf32, #V_tp>{{$}}
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #V>
  // CHECK: dist.fake_scatter(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #I_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %1 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S0>
  // CHECK: dist.fake_scatter(%{{.*}}) dim 0 over @mesh ["cp", "tp"] : tensor<12xf32, #I_cp_I_tp> -> tensor<2xf32, #S0o0_cp_S0o1_tp>{{$}}
  %2 = dist.fake_scatter(%b) dim 0 over @mesh ["cp", "tp"] : tensor<12xf32, #I_I> -> tensor<2xf32, #S0_S0>
  return
}
