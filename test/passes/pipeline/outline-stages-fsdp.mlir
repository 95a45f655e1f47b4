// What --split-fsdp-collectives does of stages, done before they are divided: they save nothing that is gathered, and
// budgets count it once for the step.

// RUN: cleave-opt %s --autodiff --outline-stages="split-fsdp-collectives=true policy=save-all" --check-spmd-types | FileCheck %s
// RUN: cleave-opt %s --autodiff --outline-stages=policy=save-all | FileCheck %s --check-prefix=SAVED
// RUN: cleave-opt %s --autodiff --outline-stages="split-fsdp-collectives=true policy=budget memory=1GiB microbatches=2 explain=true" \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=PLANNED
// RUN: not cleave-opt %s --autodiff --outline-stages="split-fsdp-collectives=true policy=budget memory=100 microbatches=2" \
// RUN:   2>&1 | FileCheck %s --check-prefix=LEAST
// RUN: cleave-opt %s --autodiff --outline-stages="split-fsdp-collectives=true policy=budget memory=1GiB microbatches=2" \
// RUN:   --build-schedule="schedule=1f1b ranks=2 microbatches=2" --insert-p2p -o %t.mlir && cleave-run %t.mlir --dry-run \
// RUN:   | FileCheck %s --check-prefix=DRY

// CHECK-LABEL: func.func @unshard_0(
// CHECK-SAME: parameter "a"
// CHECK-SAME: saved "unshard.a"
// CHECK: dist.all_gather
// CHECK-LABEL: func.func @unshard_1(
// CHECK-LABEL: func.func @forward_0(
// CHECK-SAME: saved "unshard.a"
// CHECK-NOT: dist.all_gather
// CHECK-LABEL: func.func @backward_1(
// CHECK-SAME: -> (tensor<4x4xf32, #{{.*}}> {train.role = #train.role<gradient "b">}
// CHECK-NOT: dist.all_gather
// CHECK-NOT: dist.reduce_scatter
// CHECK-LABEL: func.func @reduce_0(
// CHECK: dist.reduce_scatter
// CHECK-LABEL: func.func @reduce_1(

// The gathered parameter is saved for the gradient of what the stage takes.
// SAVED-LABEL: func.func @forward_1(
// SAVED: dist.all_gather
// SAVED-LABEL: func.func @backward_1(

// PLANNED: rank 0: peak of a step [[FIRST:.*]], of it state
// PLANNED: rank 1: peak of a step

// LEAST: error: cannot do with 100 B of memory: rank 0 of schedule '1f1b' needs {{.*}}; of these 32 B are parameters, 128 B are inputs, 64 B are gathered parameters, and {{.*}} are values of microbatches

// DRY: gathered parameters            64 B              64
#I = #dist.on<@mesh, fsdp = I>
#R = #dist.on<@mesh, fsdp = R>
#P = #dist.on<@mesh, fsdp = P>
#S0 = #dist.on<@mesh, fsdp = S(0)>
module @mlp {
  dist.mesh @mesh ["fsdp" = 2]
  func.func @microbatch(
      %a: tensor<2x4xf32, #S0> {train.role = #train.role<parameter "a">},
      %b: tensor<2x4xf32, #S0> {train.role = #train.role<parameter "b">},
      %x: tensor<8x4xf32, #S0> {train.role = #train.role<input "x">})
      -> (tensor<f32, #I> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = dist.all_gather(%a) dim 0 over @mesh ["fsdp"] {train.stage = 0 : i64} : tensor<2x4xf32, #S0> -> tensor<4x4xf32, #R>
    %1 = aten.mm(%x, %0) {train.stage = 0 : i64} : (tensor<8x4xf32, #S0>, tensor<4x4xf32, #R>) -> tensor<8x4xf32, #S0>
    %2 = dist.all_gather(%b) dim 0 over @mesh ["fsdp"] {train.stage = 1 : i64} : tensor<2x4xf32, #S0> -> tensor<4x4xf32, #R>
    %3 = aten.mm(%1, %2) {train.stage = 1 : i64} : (tensor<8x4xf32, #S0>, tensor<4x4xf32, #R>) -> tensor<8x4xf32, #S0>
    %4 = aten.mul(%3, %3) {train.stage = 1 : i64} : (tensor<8x4xf32, #S0>, tensor<8x4xf32, #S0>) -> tensor<8x4xf32, #S0>
    %5 = aten.sum(%4) {train.stage = 1 : i64} : (tensor<8x4xf32, #S0>) -> tensor<f32, #P>
    %6 = dist.all_reduce sum(%5) over @mesh ["fsdp"] {train.stage = 1 : i64} : tensor<f32, #P> -> tensor<f32, #I>
    return %6 : tensor<f32, #I>
  }
}
