// A collective in flight ends in its stage, although a cut before its wait would be the most even one.
// RUN: cleave-opt %s --outline-stages="count=2 slack=0" | FileCheck %s

dist.mesh @mesh ["dp" = 2]

// CHECK: %[[STARTED:.*]] = dist.all_reduce
// CHECK-NEXT: dist.wait %[[STARTED]]
func.func @microbatch(%x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>}, %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<8x8xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<8x8xf32> -> !dist.future<tensor<8x8xf32>>
  %2 = dist.wait %1 : tensor<8x8xf32>
  %3 = aten.relu(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = aten.relu(%3) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}
