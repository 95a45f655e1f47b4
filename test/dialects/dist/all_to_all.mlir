// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>
#S1_S1 = #dist.on<@mesh, cp = S(1, 0), tp = S(1, 1)>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<4x8xf32>) {
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>{{$}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: dist.all_to_all(%{{.*}}) split 0 concat 0 over @mesh ["tp"] : tensor<4x8xf32>{{$}}
  %1 = dist.all_to_all(%a) split 0 concat 0 over @mesh ["tp"] : tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @transitions
func.func @transitions(%a: tensor<4x8xf32, #S0>, %b: tensor<4x8xf32, #V>) {
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #S0_tp> -> tensor<8x4xf32, #S1_tp>{{$}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #S0> -> tensor<8x4xf32, #S1>
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #V_tp> -> tensor<8x4xf32, #V_tp>{{$}}
  %1 = dist.all_to_all(%b) split 1 concat 0 over @mesh ["tp"] : tensor<4x8xf32, #V> -> tensor<8x4xf32, #V>
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 1 over @mesh ["tp"] : tensor<4x8xf32, #V_tp>{{$}}
  %2 = dist.all_to_all(%b) split 1 concat 1 over @mesh ["tp"] : tensor<4x8xf32, #V>
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 1 over @mesh ["tp"] : tensor<4x8xf32, #V_tp> -> !dist.future<tensor<4x8xf32, #V_tp>>{{$}}
  %3 = dist.all_to_all(%b) split 1 concat 1 over @mesh ["tp"] : tensor<4x8xf32, #V> -> !dist.future<tensor<4x8xf32, #V>>
  return
}

// CHECK-LABEL: func.func @uneven
func.func @uneven(%a: tensor<4x7xf32, #S0>, %b: tensor<3x7xf32, #S0>) {
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 0 over @mesh ["tp"] : tensor<4x7xf32, #S0_tp> -> tensor<7x4xf32, #S1_tp>{{$}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["tp"] : tensor<4x7xf32, #S0> -> tensor<7x4xf32, #S1>
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 0 over @mesh ["tp"] : tensor<3x7xf32, #S0_tp> -> tensor<7x3xf32, #S1_tp>{{$}}
  %1 = dist.all_to_all(%b) split 1 concat 0 over @mesh ["tp"] : tensor<3x7xf32, #S0> -> tensor<7x3xf32, #S1>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<1x6xf32, #S0_S0>) {
  // CHECK: dist.all_to_all(%{{.*}}) split 1 concat 0 over @mesh ["cp", "tp"] : tensor<1x6xf32, #S0o0_cp_S0o1_tp> -> tensor<6x1xf32, #S1o0_cp_S1o1_tp>{{$}}
  %0 = dist.all_to_all(%a) split 1 concat 0 over @mesh ["cp", "tp"] : tensor<1x6xf32, #S0_S0> -> tensor<6x1xf32, #S1_S1>
  return
}
