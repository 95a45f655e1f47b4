// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>
#V_V = #dist.on<@mesh, cp = V, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.shift(%{{.*}}) by 1 wrap over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.shift(%a) by 1 wrap over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.shift(%{{.*}}) by -1 over @mesh ["tp"] : tensor<8xf32>{{$}}
  %1 = dist.shift(%a) by -1 over @mesh ["tp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<8xf32, #V>, %b: tensor<8xf32, #V_V>) {
  // CHECK: dist.shift(%{{.*}}) by 1 over @mesh ["tp"] : tensor<8xf32, #V_tp>{{$}}
  %0 = dist.shift(%a) by 1 over @mesh ["tp"] : tensor<8xf32, #V>
  // CHECK: dist.shift(%{{.*}}) by -2 wrap over @mesh ["cp", "tp"] : tensor<8xf32, #V_cp_V_tp>{{$}}
  %1 = dist.shift(%b) by -2 wrap over @mesh ["cp", "tp"] : tensor<8xf32, #V_V>
  // CHECK: dist.shift(%{{.*}}) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V_tp> -> !dist.future<tensor<8xf32, #V_tp>>{{$}}
  %2 = dist.shift(%a) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  return
}
