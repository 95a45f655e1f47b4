// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.scatter(%{{.*}}) dim 0 root 1 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>{{$}}
  %0 = dist.scatter(%a) dim 0 root 1 over @mesh ["tp"] : tensor<8xf32> -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<8xf32, #V>, %b: tensor<7xf32, #V>) {
  // CHECK: dist.scatter(%{{.*}}) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<4xf32, #V_tp>{{$}}
  %0 = dist.scatter(%a) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #V>
  // CHECK: dist.scatter(%{{.*}}) dim 0 root 0 over @mesh ["tp"] : tensor<7xf32, #V_tp> -> tensor<3xf32, #V_tp>{{$}}
  %1 = dist.scatter(%b) dim 0 root 0 over @mesh ["tp"] : tensor<7xf32, #V> -> tensor<3xf32, #V>
  // CHECK: dist.scatter(%{{.*}}) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> !dist.future<tensor<4xf32, #V_tp>>{{$}}
  %2 = dist.scatter(%a) dim 0 root 0 over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<4xf32, #V>>
  return
}
