// RUN: cleave-opt %s --canonicalize | FileCheck %s

// What no result needs goes, calls of operators without a typed op too. The signature stays: every
// argument and result has a role in files and between steps.

// CHECK-LABEL: func.func @microbatch
// CHECK-SAME: #train.role<parameter "unused">
// CHECK-SAME: #train.role<input "x" batch 0>
// CHECK-SAME: train.draws = 96 : i64
func.func @microbatch(
    %unused: tensor<4x8xf32> {train.role = #train.role<parameter "unused">},
    %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>},
    %s: tensor<i64> {train.role = #train.role<rng_seed>},
    %o: tensor<i64> {train.role = #train.role<rng_offset>})
    -> (tensor<4x8xf32> {train.role = #train.role<output "0" batch 0>})
    attributes {train.phase = #train.phase<microbatch>, train.draws = 96 : i64} {
  // CHECK-NOT: position = 0
  %dead, %mask = aten.rng_native_dropout(%x, %s, %o, p = 0.5, train = true, position = 0, generator = #aten.generator<mt19937>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK-NOT: aten.call
  %rolled = aten.call "aten::roll"(self = %dead, shifts = [1], dims = [0]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK-NOT: dist.all_reduce
  %sum = dist.all_reduce sum(%rolled) over @mesh ["dp"] : tensor<4x8xf32>
  // A draw that stays keeps its place in the stream.
  // CHECK: %[[Y:.*]], %{{.*}} = aten.rng_native_dropout({{.*}}position = 64
  %y, %m = aten.rng_native_dropout(%x, %s, %o, p = 0.5, train = true, position = 64, generator = #aten.generator<mt19937>)
      : (tensor<4x8xf32>, tensor<i64>, tensor<i64>) -> (tensor<4x8xf32>, tensor<4x8xi1>)
  // CHECK-NEXT: return %[[Y]]
  return %y : tensor<4x8xf32>
}

dist.mesh @mesh ["dp" = 2]
