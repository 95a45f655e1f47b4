// A program with placements: conversions are done again rather than saved, collectives are not run
// again. The parts have the types of the whole.

// RUN: cleave-opt %s --autodiff --partition-joint --check-spmd-types | FileCheck %s
// RUN: cleave-opt %s --autodiff --partition-joint="explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TABLE

// CHECK: func.func @forward(
// CHECK-SAME: -> (tensor<f32, #[[I:[a-zA-Z0-9_]+]]> {train.role = #train.role<loss>}, tensor<4x4xf32, #[[S1:[a-zA-Z0-9_]+]]> {train.role = #train.role<saved "relu">})
// CHECK: dist.all_reduce
// CHECK: func.func @backward(
// CHECK-SAME: tensor<f32, #[[I]]> {train.role = #train.role<seed>}, %{{.*}}: tensor<4x4xf32, #[[S1]]> {train.role = #train.role<saved "relu">})
// CHECK-NOT: dist.all_reduce
// CHECK: dist.convert {{.*}} {train.recomputed}
// CHECK: return

// TABLE: saved values (1, 64 B)
#I = #dist.on<@mesh, tp = I>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>
module @mlp {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(
      %a: tensor<4x4xf32, #S1> {train.role = #train.role<parameter "a">},
      %b: tensor<4x4xf32, #S0> {train.role = #train.role<parameter "b">},
      %x: tensor<4x4xf32, #I> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<f32, #I> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = dist.convert %x : tensor<4x4xf32, #I> -> tensor<4x4xf32, #R>
    %1 = aten.mm(%0, %a) : (tensor<4x4xf32, #R>, tensor<4x4xf32, #S1>) -> tensor<4x4xf32, #S1>
    %2 = aten.relu(%1) : (tensor<4x4xf32, #S1>) -> tensor<4x4xf32, #S1>
    %3 = aten.mm(%2, %b) : (tensor<4x4xf32, #S1>, tensor<4x4xf32, #S0>) -> tensor<4x4xf32, #P>
    %4 = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<4x4xf32, #P> -> tensor<4x4xf32, #I>
    %5 = aten.mean(%4) : (tensor<4x4xf32, #I>) -> tensor<f32, #I>
    return %5 : tensor<f32, #I>
  }
}
