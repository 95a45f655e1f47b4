// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>
#Pmax = #dist.on<@mesh, tp = P(max)>
#S1_S0 = #dist.on<@mesh, cp = S(1), tp = S(0)>
#S1_V = #dist.on<@mesh, cp = S(1), tp = V>

// CHECK-LABEL: func.func @reinterpret
func.func @reinterpret(%a: tensor<8xf32, #R>, %b: tensor<8xf32, #V>, %c: tensor<8xf32, #S0>) {
  // CHECK: dist.reinterpret %{{.*}} : tensor<8xf32, #R_tp> -> tensor<8xf32, #V_tp>{{$}}
  %0 = dist.reinterpret %a : tensor<8xf32, #R> -> tensor<8xf32, #V>
  // CHECK: dist.reinterpret %{{.*}} : tensor<8xf32, #V_tp> -> tensor<8xf32, #P_tp>{{$}}
  %1 = dist.reinterpret %b : tensor<8xf32, #V> -> tensor<8xf32, #P>
  // CHECK: dist.reinterpret %{{.*}} : tensor<8xf32, #V_tp> -> tensor<8xf32, #Pmax_tp>{{$}}
  %2 = dist.reinterpret %b : tensor<8xf32, #V> -> tensor<8xf32, #Pmax>
  // CHECK: dist.reinterpret %{{.*}} : tensor<8xf32, #R_tp> -> tensor<8xf32, #P_tp>{{$}}
  %3 = dist.reinterpret %a : tensor<8xf32, #R> -> tensor<8xf32, #P>
  // CHECK: dist.reinterpret %{{.*}} : tensor<8xf32, #V_tp> -> tensor<8xf32, #S0_tp>{{$}}
  %4 = dist.reinterpret %b : tensor<8xf32, #V> -> tensor<8xf32, #S0>
  // CHECK: dist.reinterpret %{{.*}} : tensor<8xf32, #S0_tp> -> tensor<8xf32, #V_tp>{{$}}
  %5 = dist.reinterpret %c : tensor<8xf32, #S0> -> tensor<8xf32, #V>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<8x8xf32, #S1_V>) {
  // CHECK: dist.reinterpret %{{.*}} : tensor<8x8xf32, #S1_cp_V_tp> -> tensor<8x8xf32, #S1_cp_S0_tp>{{$}}
  %0 = dist.reinterpret %a : tensor<8x8xf32, #S1_V> -> tensor<8x8xf32, #S1_S0>
  return
}
