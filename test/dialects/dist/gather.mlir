// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>
#V_V = #dist.on<@mesh, cp = V, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<4xf32>) {
  // CHECK: dist.gather(%{{.*}}) dim 0 root 1 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>{{$}}
  %0 = dist.gather(%a) dim 0 root 1 over @mesh ["tp"] : tensor<4xf32> -> tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<4xf32, #V>, %b: tensor<1xf32, #V_V>) {
  // CHECK: dist.gather(%{{.*}}) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>{{$}}
  %0 = dist.gather(%a) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #V>
  // CHECK: dist.gather(%{{.*}}) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> tensor<7xf32, #V_tp>{{$}}
  %1 = dist.gather(%a) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<7xf32, #V>
  // CHECK: dist.gather(%{{.*}}) dim 0 root 4 over @mesh ["cp", "tp"] : tensor<1xf32, #V_cp_V_tp> -> tensor<6xf32, #V_cp_V_tp>{{$}}
  %2 = dist.gather(%b) dim 0 root 4 over @mesh ["cp", "tp"] : tensor<1xf32, #V_V> -> tensor<6xf32, #V_V>
  // CHECK: dist.gather(%{{.*}}) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> !dist.future<tensor<8xf32, #V_tp>>{{$}}
  %3 = dist.gather(%a) dim 0 root 0 over @mesh ["tp"] : tensor<4xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  return
}
