// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#I_I = #dist.on<@mesh, cp = I, tp = I>
#V_V = #dist.on<@mesh, cp = V, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.broadcast(%{{.*}}) root 0 over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.broadcast(%a) root 0 over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.broadcast(%{{.*}}) root 5 over @mesh ["cp", "tp"] : tensor<8xf32>{{$}}
  %1 = dist.broadcast(%a) root 5 over @mesh ["cp", "tp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @transitions
func.func @transitions(%a: tensor<8xf32, #V>) {
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #V_tp>{{$}}
  %0 = dist.broadcast(%a) root 1 over @mesh ["tp"] : tensor<8xf32, #V>
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #R_tp>{{$}}
  %1 = dist.broadcast(%a) root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>{{$}}
  %2 = dist.broadcast(%a) root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> !dist.future<tensor<8xf32, #R_tp>>{{$}}
  %3 = dist.broadcast(%a) root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #R>>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<8xf32, #V_V>) {
  // CHECK: dist.broadcast(%{{.*}}) root 1 over @mesh ["cp", "tp"] : tensor<8xf32, #V_cp_V_tp> -> tensor<8xf32, #I_cp_I_tp>{{$}}
  %0 = dist.broadcast(%a) root 1 over @mesh ["cp", "tp"] : tensor<8xf32, #V_V> -> tensor<8xf32, #I_I>
  return
}
