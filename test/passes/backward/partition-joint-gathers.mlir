// What a product takes gathered is saved gathered, or, with recompute=gathers, as the rank's shard.

// RUN: cleave-opt %s --autodiff --partition-joint --check-spmd-types | FileCheck %s --check-prefix=SAVED
// RUN: cleave-opt %s --autodiff --partition-joint="recompute=gathers" --check-spmd-types | FileCheck %s
// RUN: cleave-opt %s --autodiff --partition-joint="recompute=gathers explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TABLE

// SAVED: func.func @backward(
// SAVED: train.role<saved "all_gather">
// SAVED-NOT: dist.all_gather
// SAVED: return

// CHECK: func.func @forward(
// CHECK-NOT: train.role<saved "all_gather">
// CHECK: func.func @backward(
// CHECK: %[[X:[a-z0-9]+]]: tensor<2x4xf32, #{{[A-Za-z0-9_]+}}> {train.role = #train.role<saved "mm">}
// CHECK: dist.all_gather(%[[X]]) dim 0 over @mesh ["tp"] {train.recomputed}
// CHECK: return

// TABLE: 1 dist.all_gather
#I = #dist.on<@mesh, tp = I>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
module @mlp {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(
      %v: tensor<4x4xf32, #R> {train.role = #train.role<parameter "v">},
      %a: tensor<4x2xf32, #S1> {train.role = #train.role<parameter "a">},
      %b: tensor<2x4xf32, #S0> {train.role = #train.role<parameter "b">},
      %x: tensor<2x4xf32, #S0> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<f32, #I> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.mm(%x, %v) : (tensor<2x4xf32, #S0>, tensor<4x4xf32, #R>) -> tensor<2x4xf32, #S0>
    %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x4xf32, #S0> -> tensor<4x4xf32, #R>
    %2 = aten.mm(%1, %a) : (tensor<4x4xf32, #R>, tensor<4x2xf32, #S1>) -> tensor<4x2xf32, #S1>
    %3 = aten.mm(%2, %b) : (tensor<4x2xf32, #S1>, tensor<2x4xf32, #S0>) -> tensor<4x4xf32, #P>
    %4 = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<4x4xf32, #P> -> tensor<4x4xf32, #I>
    %5 = aten.mean(%4) : (tensor<4x4xf32, #I>) -> tensor<f32, #I>
    return %5 : tensor<f32, #I>
  }
}
