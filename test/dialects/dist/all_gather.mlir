// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#R_R = #dist.on<@mesh, cp = R, tp = R>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>
#S0_R = #dist.on<@mesh, cp = S(0), tp = R>
#S1_R = #dist.on<@mesh, cp = S(1), tp = R>
#S1_S0 = #dist.on<@mesh, cp = S(1), tp = S(0)>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<2x4xf32>) {
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<2x4xf32> -> tensor<4x4xf32>{{$}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<2x4xf32> -> tensor<4x4xf32>
  // CHECK: dist.all_gather(%{{.*}}) dim 1 over @mesh ["cp", "tp"] : tensor<2x4xf32> -> tensor<2x24xf32>{{$}}
  %1 = dist.all_gather(%a) dim 1 over @mesh ["cp", "tp"] : tensor<2x4xf32> -> tensor<2x24xf32>
  // CHECK: dist.all_gather(%{{.*}}, %{{.*}}) dim 0 over @mesh ["tp"] : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>, tensor<3x4xf32>{{$}}
  %2:2 = dist.all_gather(%a, %a) dim 0 over @mesh ["tp"] : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>, tensor<3x4xf32>
  return
}

// CHECK-LABEL: func.func @transitions
func.func @transitions(%a: tensor<4xf32, #S0>, %b: tensor<4xf32, #V>) {
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<8xf32, #R_tp>{{$}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>{{$}}
  %1 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #I>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>{{$}}
  %2 = dist.all_gather(%b) dim 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #V>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> tensor<8xf32, #R_tp>{{$}}
  %3 = dist.all_gather(%b) dim 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #V_tp> -> !dist.future<tensor<8xf32, #I_tp>>{{$}}
  %4 = dist.all_gather(%b) dim 0 over @mesh ["tp"] : tensor<4xf32, #V> -> !dist.future<tensor<8xf32, #I>>
  return
}

// CHECK-LABEL: func.func @uneven
func.func @uneven(%a: tensor<4xf32, #S0>, %b: tensor<3xf32, #S0>, %c: tensor<0xf32>) {
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_tp> -> tensor<7xf32, #R_tp>{{$}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<7xf32, #R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<3xf32, #S0_tp> -> tensor<7xf32, #R_tp>{{$}}
  %1 = dist.all_gather(%b) dim 0 over @mesh ["tp"] : tensor<3xf32, #S0> -> tensor<7xf32, #R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["cp"] : tensor<0xf32> -> tensor<2xf32>{{$}}
  %2 = dist.all_gather(%c) dim 0 over @mesh ["cp"] : tensor<0xf32> -> tensor<2xf32>
  return
}

// CHECK-LABEL: func.func @axis_of_one_rank
func.func @axis_of_one_rank(%a: tensor<4xf32, #S0>) {
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["one"] : tensor<4xf32, #S0_tp>{{$}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["one"] : tensor<4xf32, #S0>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp", "one"] : tensor<4xf32, #S0_tp> -> tensor<8xf32, #R_tp>{{$}}
  %1 = dist.all_gather(%a) dim 0 over @mesh ["tp", "one"] : tensor<4xf32, #S0> -> tensor<8xf32, #R>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<2xf32, #S0_S0>, %b: tensor<2x4xf32, #S1_S0>) {
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["cp", "tp"] : tensor<2xf32, #S0o0_cp_S0o1_tp> -> tensor<12xf32, #R_cp_R_tp>{{$}}
  %0 = dist.all_gather(%a) dim 0 over @mesh ["cp", "tp"] : tensor<2xf32, #S0_S0> -> tensor<12xf32, #R_R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["cp", "tp"] : tensor<2xf32, #S0o0_cp_S0o1_tp> -> tensor<11xf32, #R_cp_R_tp>{{$}}
  %1 = dist.all_gather(%a) dim 0 over @mesh ["cp", "tp"] : tensor<2xf32, #S0_S0> -> tensor<11xf32, #R_R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<2xf32, #S0o0_cp_S0o1_tp> -> tensor<4xf32, #S0_cp_R_tp>{{$}}
  %2 = dist.all_gather(%a) dim 0 over @mesh ["tp"] : tensor<2xf32, #S0_S0> -> tensor<4xf32, #S0_R>
  // CHECK: dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<2x4xf32, #S1_cp_S0_tp> -> tensor<4x4xf32, #S1_cp_R_tp>{{$}}
  %3 = dist.all_gather(%b) dim 0 over @mesh ["tp"] : tensor<2x4xf32, #S1_S0> -> tensor<4x4xf32, #S1_R>
  return
}
