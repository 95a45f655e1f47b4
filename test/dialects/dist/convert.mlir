// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#S0_S0 = #dist.on<@mesh, cp = S(0, 0), tp = S(0, 1)>
#S0_R = #dist.on<@mesh, cp = S(0), tp = R>
#S1_R = #dist.on<@mesh, cp = S(1), tp = R>
#S1_S0 = #dist.on<@mesh, cp = S(1), tp = S(0)>

// CHECK-LABEL: func.func @from_invariant
func.func @from_invariant(%a: tensor<8xf32, #I>) {
  // CHECK: dist.convert %{{.*}} : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>{{$}}
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32, #R>
  // CHECK: dist.convert %{{.*}} dim 0 : tensor<8xf32, #I_tp> -> tensor<4xf32, #V_tp>{{$}}
  %1 = dist.convert %a dim 0 : tensor<8xf32, #I> -> tensor<4xf32, #V>
  // CHECK: dist.convert %{{.*}} : tensor<8xf32, #I_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %2 = dist.convert %a : tensor<8xf32, #I> -> tensor<4xf32, #S0>
  // CHECK: dist.convert %{{.*}} : tensor<8xf32, #I_tp> -> tensor<8xf32, #P_tp>{{$}}
  %3 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32, #P>
  return
}

// CHECK-LABEL: func.func @from_replicated
func.func @from_replicated(%a: tensor<8xf32, #R>) {
  // CHECK: dist.convert %{{.*}} dim 0 : tensor<8xf32, #R_tp> -> tensor<4xf32, #V_tp>{{$}}
  %0 = dist.convert %a dim 0 : tensor<8xf32, #R> -> tensor<4xf32, #V>
  // CHECK: dist.convert %{{.*}} : tensor<8xf32, #R_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %1 = dist.convert %a : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  // CHECK: dist.convert %{{.*}} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>{{$}}
  %2 = dist.convert %a : tensor<8xf32, #R> -> tensor<8xf32, #P>
  // CHECK: dist.convert %{{.*}} : tensor<8xf32, #R_tp> -> tensor<8xf32, #I_tp>{{$}}
  %3 = dist.convert %a : tensor<8xf32, #R> -> tensor<8xf32, #I>
  return
}

// CHECK-LABEL: func.func @to_partial
func.func @to_partial(%a: tensor<4xf32, #V>, %b: tensor<4xf32, #S0>) {
  // CHECK: dist.convert %{{.*}} dim 0 : tensor<4xf32, #V_tp> -> tensor<8xf32, #P_tp>{{$}}
  %0 = dist.convert %a dim 0 : tensor<4xf32, #V> -> tensor<8xf32, #P>
  // CHECK: dist.convert %{{.*}} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #P_tp>{{$}}
  %1 = dist.convert %b : tensor<4xf32, #S0> -> tensor<8xf32, #P>
  return
}

// CHECK-LABEL: func.func @uneven
func.func @uneven(%a: tensor<7xf32, #R>, %b: tensor<3xf32, #S0>) {
  // CHECK: dist.convert %{{.*}} : tensor<7xf32, #R_tp> -> tensor<4xf32, #S0_tp>{{$}}
  %0 = dist.convert %a : tensor<7xf32, #R> -> tensor<4xf32, #S0>
  // CHECK: dist.convert %{{.*}} : tensor<7xf32, #R_tp> -> tensor<3xf32, #S0_tp>{{$}}
  %1 = dist.convert %a : tensor<7xf32, #R> -> tensor<3xf32, #S0>
  // CHECK: dist.convert %{{.*}} : tensor<3xf32, #S0_tp> -> tensor<7xf32, #P_tp>{{$}}
  %2 = dist.convert %b : tensor<3xf32, #S0> -> tensor<7xf32, #P>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<4xf32, #S0_R>, %b: tensor<4x6xf32, #S1_R>) {
  // CHECK: dist.convert %{{.*}} : tensor<4xf32, #S0_cp_R_tp> -> tensor<2xf32, #S0o0_cp_S0o1_tp>{{$}}
  %0 = dist.convert %a : tensor<4xf32, #S0_R> -> tensor<2xf32, #S0_S0>
  // CHECK: dist.convert %{{.*}} : tensor<4x6xf32, #S1_cp_R_tp> -> tensor<2x6xf32, #S1_cp_S0_tp>{{$}}
  %1 = dist.convert %b : tensor<4x6xf32, #S1_R> -> tensor<2x6xf32, #S1_S0>
  return
}
