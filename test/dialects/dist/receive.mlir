// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>
#V_V = #dist.on<@mesh, cp = V, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped() {
  // CHECK: dist.receive from 0 to 1 tag 7 over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.receive from 0 to 1 tag 7 over @mesh ["dp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed() {
  // CHECK: dist.receive from 1 to 0 tag 0 over @mesh ["tp"] : tensor<8xf32, #V_tp>{{$}}
  %0 = dist.receive from 1 to 0 tag 0 over @mesh ["tp"] : tensor<8xf32, #V>
  // CHECK: dist.receive from 0 to 5 tag 3 over @mesh ["cp", "tp"] : tensor<8xf32, #V_cp_V_tp>{{$}}
  %1 = dist.receive from 0 to 5 tag 3 over @mesh ["cp", "tp"] : tensor<8xf32, #V_V>
  // CHECK: dist.receive from 0 to 1 tag 7 over @mesh ["tp"] : !dist.future<tensor<8xf32, #V_tp>>{{$}}
  %2 = dist.receive from 0 to 1 tag 7 over @mesh ["tp"] : !dist.future<tensor<8xf32, #V>>
  // CHECK: dist.wait %{{.*}} : tensor<8xf32, #V_tp>{{$}}
  %3 = dist.wait %2 : tensor<8xf32, #V>
  return
}
