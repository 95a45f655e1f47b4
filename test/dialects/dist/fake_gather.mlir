// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<4xf32>) {
  // CHECK: dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>{{$}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<4xf32, #V>, %b: tensor<4xf32, #S0>) {
  // CHECK: dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> tensor<8xf32, #I_tp>{{$}}
  %0 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #I>
  // CHECK: dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>{{$}}
  %1 = dist.fake_gather(%b) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #I>
  // CHECK: dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<7xf32, #I_tp>{{$}}
  %2 = dist.fake_gather(%b) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<7xf32, #I>
  // CHECK: dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> !dist.future<tensor<8xf32, #I_tp>>{{$}}
  %3 = dist.fake_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #V> -> !dist.future<tensor<8xf32, #I>>
  return
}
