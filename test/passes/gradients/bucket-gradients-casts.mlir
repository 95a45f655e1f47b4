// RUN: cleave-opt %s --split-input-file --bucket-gradients | FileCheck %s

// Casts between reductions go: the bucket adds up and reduces in the widest type of the program's sums.

// Narrowed before the reduction, and widened after it.
// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<8xf32>] over @mesh [] scatter ["dp"]
module {
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xf32> {train.role = #train.role<input "x" batch 0 over ["dp"]>},
                      %a: tensor<8xf32> {train.role = #train.role<accumulator "w">})
    -> (tensor<8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  // CHECK: train.contribute %{{.*}} to "w" in %{{.*}} : tensor<8xf32>
  %sum = train.accumulate %x into %a : tensor<8xf32>
  return %sum : tensor<8xf32>
}
// CHECK-NOT: func.func @reduce
func.func @reduce(%g: tensor<8xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  %n = aten._to_copy(%g, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
  %r = dist.reduce_scatter sum(%n) dim 0 over @mesh ["dp"] : tensor<8xbf16> -> tensor<4xbf16>
  %h = aten._to_copy(%r, dtype = f32) : (tensor<4xbf16>) -> tensor<4xf32>
  return %h : tensor<4xf32>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK-NEXT: %[[G:.*]] = train.wait_bucket {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: return %[[G]]
  return %g : tensor<4xf32>
}
}

// -----

// What is narrower in the end is cast where the bucket gives it back.
// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<8xf32>] over @mesh ["dp"]
module {
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<8xbf16> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xf32> {train.role = #train.role<input "x" batch 0 over ["dp"]>})
    -> (tensor<8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %x : tensor<8xf32>
}
func.func @reduce(%g: tensor<8xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<8xbf16> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<reduce>} {
  %n = aten._to_copy(%g, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
  %r = dist.all_reduce sum(%n) over @mesh ["dp"] : tensor<8xbf16>
  return %r : tensor<8xbf16>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<8xbf16> {train.role = #train.role<parameter "w">},
                  %g: tensor<8xbf16> {train.role = #train.role<gradient "w">})
    -> (tensor<8xbf16> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK-NEXT: %[[G:.*]] = train.wait_bucket {{.*}} -> tensor<8xf32>
  // CHECK-NEXT: %[[N:.*]] = aten._to_copy(%[[G]], dtype = bf16)
  // CHECK-NEXT: return %[[N]]
  return %g : tensor<8xbf16>
}
}

// -----

// Reduced in a wider type than it is contributed in.
// CHECK: train.bucket @bucket0 of f32 ["w" : tensor<8xbf16>] over @mesh ["dp"]
module {
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<8xbf16> {train.role = #train.role<parameter "w">},
                      %x: tensor<8xbf16> {train.role = #train.role<input "x" batch 0 over ["dp"]>},
                      %a: tensor<8xbf16> {train.role = #train.role<accumulator "w">})
    -> (tensor<8xbf16> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %sum = train.accumulate %x into %a : tensor<8xbf16>
  return %sum : tensor<8xbf16>
}
// CHECK-LABEL: func.func @update
func.func @update(%w: tensor<8xbf16> {train.role = #train.role<parameter "w">},
                  %g: tensor<8xbf16> {train.role = #train.role<gradient "w">})
    -> (tensor<8xbf16> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  // CHECK-NEXT: %[[G:.*]] = train.wait_bucket {{.*}} -> tensor<8xbf16>
  // CHECK-NEXT: return %[[G]]
  %h = aten._to_copy(%g, dtype = f32) : (tensor<8xbf16>) -> tensor<8xf32>
  %r = dist.all_reduce sum(%h) over @mesh ["dp"] : tensor<8xf32>
  %n = aten._to_copy(%r, dtype = bf16) : (tensor<8xf32>) -> tensor<8xbf16>
  return %n : tensor<8xbf16>
}
}
