// cleave-opt checks placements after each of Cleave's passes, not after upstream's and not without one.

// RUN: not cleave-opt %s --cse --simplify-communication --print-sharding-rules 2>&1 | FileCheck %s
// RUN: not cleave-opt %s --pass-pipeline='builtin.module(cse,func.func(simplify-communication),print-sharding-rules)' 2>&1 | FileCheck %s
// RUN: cleave-opt %s --cse --simplify-communication --verify-types=false
// RUN: cleave-opt %s --cse
// RUN: cleave-opt %s

// The pass after the error is not run.
// CHECK-NOT: remark
// CHECK: error: 'aten.relu' op produces S(0) on axis "tp", found V declared for result 0
// CHECK-NOT: remark

// The pipeline that is asked for is the pipeline that is shown.
// RUN: not cleave-opt %s --simplify-communication --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: builtin.module
// PIPELINE-NOT: check-spmd-types

dist.mesh @mesh ["tp" = 2]

func.func @forgotten(%x: tensor<4xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, tp = V>> {
  %0 = aten.relu(%x) : (tensor<4xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, tp = V>>
  return %0 : tensor<4xf32, #dist.on<@mesh, tp = V>>
}
