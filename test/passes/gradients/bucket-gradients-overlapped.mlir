// RUN: cleave-opt %s --overlap-communication --bucket-gradients --split-input-file | FileCheck %s

// Reductions that --overlap-communication has split into start and wait go into buckets, too.

// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<4x2xf32>, "b" : tensor<2xf32>] over @mesh ["dp"]
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4x2xf32> {train.role = #train.role<parameter "w">},
                      %b: tensor<2xf32> {train.role = #train.role<parameter "b">},
                      %x: tensor<4x2xf32> {train.role = #train.role<input "x" batch 0 over ["dp"]>},
                      %y: tensor<2xf32> {train.role = #train.role<input "y" batch 0 over ["dp"]>},
                      %a: tensor<4x2xf32> {train.role = #train.role<accumulator "w">},
                      %c: tensor<2xf32> {train.role = #train.role<accumulator "b">})
    -> (tensor<4x2xf32> {train.role = #train.role<gradient "w">},
        tensor<2xf32> {train.role = #train.role<gradient "b">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = train.accumulate %x into %a : tensor<4x2xf32>
  %2 = train.accumulate %y into %c : tensor<2xf32>
  return %0, %2 : tensor<4x2xf32>, tensor<2xf32>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<4x2xf32> {train.role = #train.role<parameter "w">},
                  %b: tensor<2xf32> {train.role = #train.role<parameter "b">},
                  %gw: tensor<4x2xf32> {train.role = #train.role<gradient "w">},
                  %gb: tensor<2xf32> {train.role = #train.role<gradient "b">})
    -> (tensor<4x2xf32> {train.role = #train.role<parameter "w">},
        tensor<2xf32> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK-NEXT: %[[G:.*]]:2 = train.wait_bucket
  // CHECK-NEXT: aten.neg(%[[G]]#0)
  // CHECK-NEXT: aten.neg(%[[G]]#1)
  // CHECK-NEXT: return
  %0 = dist.all_reduce sum(%gw) over @mesh ["dp"] : tensor<4x2xf32>
  %1 = dist.all_reduce sum(%gb) over @mesh ["dp"] : tensor<2xf32>
  %2 = aten.neg(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  %3 = aten.neg(%1) : (tensor<2xf32>) -> tensor<2xf32>
  return %2, %3 : tensor<4x2xf32>, tensor<2xf32>
}

// -----

// A hybrid reduction is a start and a wait for each of its two parts.

// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<4x2xf32>, "v" : tensor<4x2xf32>] over @mesh ["dp"] scatter ["fsdp"]
// CHECK-NOT: func.func @reduce
dist.mesh @mesh ["dp" = 2, "fsdp" = 2]
func.func @microbatch(%w: tensor<2x2xf32> {train.role = #train.role<parameter "w">},
                      %v: tensor<2x2xf32> {train.role = #train.role<parameter "v">},
                      %x: tensor<4x2xf32> {train.role = #train.role<input "x" batch 0 over ["dp", "fsdp"]>},
                      %a: tensor<4x2xf32> {train.role = #train.role<accumulator "w">},
                      %c: tensor<4x2xf32> {train.role = #train.role<accumulator "v">})
    -> (tensor<4x2xf32> {train.role = #train.role<gradient "w">},
        tensor<4x2xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = train.accumulate %x into %a : tensor<4x2xf32>
  %1 = train.accumulate %x into %c : tensor<4x2xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<4x2xf32>
}
func.func @reduce(%gw: tensor<4x2xf32> {train.role = #train.role<gradient "w">},
                  %gv: tensor<4x2xf32> {train.role = #train.role<gradient "v">})
    -> (tensor<2x2xf32> {train.role = #train.role<gradient "w">},
        tensor<2x2xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<reduce>} {
  %0 = dist.reduce_scatter sum(%gw) dim 0 over @mesh ["fsdp"] : tensor<4x2xf32> -> tensor<2x2xf32>
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<2x2xf32>
  %2 = dist.reduce_scatter sum(%gv) dim 0 over @mesh ["fsdp"] : tensor<4x2xf32> -> tensor<2x2xf32>
  %3 = dist.all_reduce sum(%2) over @mesh ["dp"] : tensor<2x2xf32>
  return %1, %3 : tensor<2x2xf32>, tensor<2x2xf32>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<2x2xf32> {train.role = #train.role<parameter "w">},
                  %v: tensor<2x2xf32> {train.role = #train.role<parameter "v">},
                  %gw: tensor<2x2xf32> {train.role = #train.role<gradient "w">},
                  %gv: tensor<2x2xf32> {train.role = #train.role<gradient "v">})
    -> (tensor<2x2xf32> {train.role = #train.role<parameter "w">},
        tensor<2x2xf32> {train.role = #train.role<parameter "v">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK: train.wait_bucket
  return %gw, %gv : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A gradient that a microbatch communicates itself is awaited where it is contributed: not at the
// end, where its sum over the microbatches waited for it.

// CHECK-LABEL: func.func @microbatch
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<2x4xf32> {train.role = #train.role<parameter "w">},
                      %v: tensor<4x4xf32> {train.role = #train.role<parameter "v">},
                      %x: tensor<4x4xf32> {train.role = #train.role<input "x" batch 0 over ["dp"]>},
                      %a: tensor<2x4xf32> {train.role = #train.role<accumulator "w">},
                      %c: tensor<4x4xf32> {train.role = #train.role<accumulator "v">})
    -> (tensor<2x4xf32> {train.role = #train.role<gradient "w">},
        tensor<4x4xf32> {train.role = #train.role<gradient "v">})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK: %[[F:.*]] = dist.reduce_scatter
  // CHECK-NEXT: %[[P:.*]] = aten.mm
  // CHECK-NEXT: %[[W:.*]] = dist.wait %[[F]]
  // CHECK-NEXT: train.contribute
  // CHECK: aten.mm
  %0 = dist.reduce_scatter sum(%x) dim 0 over @mesh ["dp"] : tensor<4x4xf32> -> tensor<2x4xf32>
  %1 = train.accumulate %0 into %a : tensor<2x4xf32>
  %2 = aten.mm(%x, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = train.accumulate %2 into %c : tensor<4x4xf32>
  %4 = aten.mm(%2, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = aten.neg(%4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %3 : tensor<2x4xf32>, tensor<4x4xf32>
}
func.func @update(%w: tensor<2x4xf32> {train.role = #train.role<parameter "w">},
                  %v: tensor<4x4xf32> {train.role = #train.role<parameter "v">},
                  %gw: tensor<2x4xf32> {train.role = #train.role<gradient "w">},
                  %gv: tensor<4x4xf32> {train.role = #train.role<gradient "v">})
    -> (tensor<2x4xf32> {train.role = #train.role<parameter "w">},
        tensor<4x4xf32> {train.role = #train.role<parameter "v">})
    attributes {train.phase = #train.phase<update>} {
  return %gw, %gv : tensor<2x4xf32>, tensor<4x4xf32>
}
