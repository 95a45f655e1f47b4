// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#Pmax = #dist.on<@mesh, tp = P(max)>
#Pavg = #dist.on<@mesh, tp = P(avg)>
#R_R = #dist.on<@mesh, cp = R, tp = R>
#P_P = #dist.on<@mesh, cp = P, tp = P>
#S0_R = #dist.on<@mesh, cp = S(0), tp = R>
#S0_P = #dist.on<@mesh, cp = S(0), tp = P>
#R_P = #dist.on<@mesh, cp = R, tp = P>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>, %b: tensor<i64>, %c: tensor<4xi1>) {
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.all_reduce sum(%a) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp", "dp"] {tag} : tensor<i64>{{$}}
  %1 = dist.all_reduce sum(%b) over @mesh ["tp", "dp"] {tag} : tensor<i64>
  // CHECK: dist.all_reduce avg(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %2 = dist.all_reduce avg(%a) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce premul_sum<5.000000e-01>(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %3 = dist.all_reduce premul_sum<5.000000e-01>(%a) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce premul_sum<-2.000000e+00>(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %4 = dist.all_reduce premul_sum<-2.000000e+00>(%a) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce max(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %5 = dist.all_reduce max(%a) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce min(%{{.*}}) over @mesh ["dp"] : tensor<i64>{{$}}
  %6 = dist.all_reduce min(%b) over @mesh ["dp"] : tensor<i64>
  // CHECK: dist.all_reduce product(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %7 = dist.all_reduce product(%a) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce band(%{{.*}}) over @mesh ["dp"] : tensor<4xi1>{{$}}
  %8 = dist.all_reduce band(%c) over @mesh ["dp"] : tensor<4xi1>
  // CHECK: dist.all_reduce bor(%{{.*}}) over @mesh ["dp"] : tensor<i64>{{$}}
  %9 = dist.all_reduce bor(%b) over @mesh ["dp"] : tensor<i64>
  // CHECK: dist.all_reduce bxor(%{{.*}}) over @mesh ["dp"] : tensor<i64>{{$}}
  %10 = dist.all_reduce bxor(%b) over @mesh ["dp"] : tensor<i64>
  return
}

// CHECK-LABEL: func.func @transitions
func.func @transitions(%a: tensor<8xf32, #P>, %b: tensor<8xf32, #V>, %c: tensor<8xf32, #Pmax>, %d: tensor<8xf32, #Pavg>) {
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>{{$}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>{{$}}
  %1 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  // CHECK: dist.all_reduce max(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #Pmax_tp> -> tensor<8xf32, #R_tp>{{$}}
  %2 = dist.all_reduce max(%c) over @mesh ["tp"] : tensor<8xf32, #Pmax> -> tensor<8xf32, #R>
  // CHECK: dist.all_reduce avg(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #Pavg_tp> -> tensor<8xf32, #I_tp>{{$}}
  %3 = dist.all_reduce avg(%d) over @mesh ["tp"] : tensor<8xf32, #Pavg> -> tensor<8xf32, #I>
  // CHECK: dist.all_reduce product(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #V_tp>{{$}}
  %4 = dist.all_reduce product(%b) over @mesh ["tp"] : tensor<8xf32, #V>
  // CHECK: dist.all_reduce min(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #R_tp>{{$}}
  %5 = dist.all_reduce min(%b) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  // CHECK: dist.all_reduce premul_sum<5.000000e-01>(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>{{$}}
  %6 = dist.all_reduce premul_sum<5.000000e-01>(%b) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  return
}

// CHECK-LABEL: func.func @axes
func.func @axes(%a: tensor<8xf32, #P_P>, %b: tensor<8xf32, #S0_P>) {
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["cp", "tp"] : tensor<8xf32, #P_cp_P_tp> -> tensor<8xf32, #R_cp_R_tp>{{$}}
  %0 = dist.all_reduce sum(%a) over @mesh ["cp", "tp"] : tensor<8xf32, #P_P> -> tensor<8xf32, #R_R>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["cp"] : tensor<8xf32, #P_cp_P_tp> -> tensor<8xf32, #R_cp_P_tp>{{$}}
  %1 = dist.all_reduce sum(%a) over @mesh ["cp"] : tensor<8xf32, #P_P> -> tensor<8xf32, #R_P>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #S0_cp_P_tp> -> tensor<8xf32, #S0_cp_R_tp>{{$}}
  %2 = dist.all_reduce sum(%b) over @mesh ["tp"] : tensor<8xf32, #S0_P> -> tensor<8xf32, #S0_R>
  return
}

// CHECK-LABEL: func.func @coalesced
func.func @coalesced(%a: tensor<8xf32, #P>, %b: tensor<f32, #P>, %c: tensor<8xf32>) {
  // CHECK: dist.all_reduce sum(%{{.*}}, %{{.*}}) over @mesh ["tp"] : tensor<8xf32, #P_tp>, tensor<f32, #P_tp> -> tensor<8xf32, #R_tp>, tensor<f32, #I_tp>{{$}}
  %0:2 = dist.all_reduce sum(%a, %b) over @mesh ["tp"] : tensor<8xf32, #P>, tensor<f32, #P> -> tensor<8xf32, #R>, tensor<f32, #I>
  // CHECK: dist.all_reduce sum(%{{.*}}, %{{.*}}) over @mesh ["tp"] : tensor<8xf32>, tensor<8xf32>{{$}}
  %1:2 = dist.all_reduce sum(%c, %c) over @mesh ["tp"] : tensor<8xf32>, tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @axis_of_one_rank
func.func @axis_of_one_rank(%a: tensor<8xf32, #P>) {
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["one"] : tensor<8xf32, #P_tp>{{$}}
  %0 = dist.all_reduce sum(%a) over @mesh ["one"] : tensor<8xf32, #P>
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["one", "tp"] : tensor<8xf32, #P_tp> -> tensor<8xf32, #R_tp>{{$}}
  %1 = dist.all_reduce sum(%a) over @mesh ["one", "tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return
}

// CHECK-LABEL: func.func @started
func.func @started(%a: tensor<8xf32, #P>, %b: tensor<8xf32>) {
  // CHECK: dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #P_tp> -> !dist.future<tensor<8xf32, #R_tp>>{{$}}
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8xf32, #P> -> !dist.future<tensor<8xf32, #R>>
  // CHECK: dist.wait %{{.*}} : tensor<8xf32, #R_tp>{{$}}
  %1 = dist.wait %0 : tensor<8xf32, #R>
  // CHECK: dist.all_reduce sum(%{{.*}}, %{{.*}}) over @mesh ["tp"] : tensor<8xf32>, tensor<8xf32> -> !dist.future<tensor<8xf32>>, !dist.future<tensor<8xf32>>{{$}}
  %2:2 = dist.all_reduce sum(%b, %b) over @mesh ["tp"] : tensor<8xf32>, tensor<8xf32> -> !dist.future<tensor<8xf32>>, !dist.future<tensor<8xf32>>
  return
}
