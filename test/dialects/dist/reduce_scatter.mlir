// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#P = #dist.on<@mesh, tp = P>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#Pmax = #dist.on<@mesh, tp = P(max)>
#P_P = #dist.on<@mesh, cp = P, tp = P>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>
#S0_P = #dist.on<@mesh, cp = S(0), tp = P>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<4x8xf32>) {
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<2x8xf32>{{$}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<2x8xf32>
  // CHECK: dist.reduce_scatter max(%{{.*}}) dim 1 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<4x4xf32>{{$}}
  %1 = dist.reduce_scatter max(%a) dim 1 over @mesh ["tp"] : tensor<4x8xf32> -> tensor<4x4xf32>
  // CHECK: dist.reduce_scatter sum(%{{.*}}, %{{.*}}) dim 0 over @mesh ["tp"] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<2x8xf32>, tensor<2x8xf32>{{$}}
  %2:2 = dist.reduce_scatter sum(%a, %a) dim 0 over @mesh ["tp"] : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<2x8xf32>, tensor<2x8xf32>
  return
}

// CHECK-LABEL: func.func @transitions
func.func @transitions(%a: tensor<8xf32, #P>, %b: tensor<8xf32, #V>, %c: tensor<8xf32, #Pmax>) {
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #S0>
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<4xf32, #V_tp>{{$}}
  %1 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #V>
  // CHECK: dist.reduce_scatter max(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #Pmax_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %2 = dist.reduce_scatter max(%c) dim 0 over @mesh ["tp"] : tensor<8xf32, #Pmax> -> tensor<4xf32, #S0>
  // CHECK: dist.reduce_scatter avg(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<4xf32, #V_tp>{{$}}
  %3 = dist.reduce_scatter avg(%b) dim 0 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #V>
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #P_tp> -> !dist.future<tensor<4xf32, #S0_tp>>{{$}}
  %4 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> !dist.future<tensor<4xf32, #S0>>
  return
}

// CHECK-LABEL: func.func @uneven
func.func @uneven(%a: tensor<7xf32, #P>) {
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<7xf32, #P_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<7xf32, #P> -> tensor<4xf32, #S0>
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<7xf32, #P_tp> -> tensor<3xf32, #S0_tp>{{$}}
  %1 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["tp"] : tensor<7xf32, #P> -> tensor<3xf32, #S0>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<12xf32, #P_P>, %b: tensor<4xf32, #S0_P>) {
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["cp", "tp"] : tensor<12xf32, #P_cp_P_tp> -> tensor<2xf32, #S0o0_cp_S0o1_tp>{{$}}
  %0 = dist.reduce_scatter sum(%a) dim 0 over @mesh ["cp", "tp"] : tensor<12xf32, #P_P> -> tensor<2xf32, #S0_S0>
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_cp_P_tp> -> tensor<2xf32, #S0o0_cp_S0o1_tp>{{$}}
  %1 = dist.reduce_scatter sum(%b) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0_P> -> tensor<2xf32, #S0_S0>
  return
}
