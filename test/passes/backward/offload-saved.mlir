// RUN: cleave-opt %s --offload-saved="min-bytes=200" | FileCheck %s
// RUN: cleave-opt %s --offload-saved="values=small" | FileCheck %s --check-prefix=NAMED
// RUN: cleave-opt %s --offload-saved | FileCheck %s --check-prefix=LARGE --implicit-check-not=dist.offload
// RUN: cleave-opt %s --offload-saved="min-bytes=200" --lower-to-exec | FileCheck %s --check-prefix=LOWERED
// RUN: cleave-opt %s --offload-saved="min-bytes=200" --lower-to-exec="target=cuda chip=sm_90" | FileCheck %s --check-prefix=CUDA
// RUN: cleave-opt %s --offload-saved="min-bytes=1" --offload-saved="min-bytes=1" | FileCheck %s --check-prefix=TWICE
// RUN: not cleave-opt %s --offload-saved="values=nothing" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not cleave-opt %s --offload-saved="values=given" 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: not cleave-opt %s --offload-saved="min-bytes=much" 2>&1 | FileCheck %s --check-prefix=MUCH

// NOTHING: error: --offload-saved finds no saved value 'nothing'
// GIVEN: error: --offload-saved cannot save memory with saved value "given": what it shows stays on the device anyway, or is on the host
// MUCH: error: --offload-saved expects a number of bytes, such as min-bytes=1MiB; found 'much'
// LARGE: func.func @forward

train.program

// The copy begins when the value is there; the input, the output and what is small stay.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: !dist.host<tensor<8x8xf32>> {train.role = #train.role<saved "long">}
// CHECK-SAME: tensor<8xf32> {train.role = #train.role<saved "small">}
// CHECK-SAME: tensor<8x8xf32> {train.role = #train.role<saved "given">}
// CHECK-SAME: tensor<8x8xf32> {train.role = #train.role<saved "shown">}
// CHECK: %[[LONG:.*]] = aten.mm
// CHECK-NEXT: %[[COPY:.*]] = dist.offload %[[LONG]] : tensor<8x8xf32>
// CHECK-NEXT: aten.relu(%[[LONG]])
// CHECK-NOT: dist.offload
// CHECK: return %{{.*}}, %[[COPY]], %

// NAMED-LABEL: func.func @forward
// NAMED: aten.sum
// NAMED-NEXT: dist.offload %{{.*}} : tensor<8xf32>
// NAMED-NOT: dist.offload

// Copies have a stream of their own. The arena is not written again before they have read it, nor
// the function left; the host's copies are on its heap.

// LOWERED-LABEL: func.func @forward
// LOWERED: aten.mm({{.*}}) {exec.memory = [#exec.at<[[PLACE:.*]]>]}
// LOWERED-NEXT: %[[MADE:.*]] = exec.record on compute
// LOWERED-NEXT: exec.wait %[[MADE]] on host
// LOWERED-NEXT: dist.offload %{{.*}} {exec.memory = [#exec.apart], exec.stream = #exec.stream<host>}
// LOWERED-NEXT: %[[READ:.*]] = exec.record on host
// LOWERED: exec.wait %[[READ]] on compute
// LOWERED-NEXT: return
// CUDA-LABEL: func.func @forward
// CUDA: dist.offload %{{.*}} {exec.memory = [#exec.apart], exec.stream = #exec.stream<host>}
// TWICE-LABEL: func.func @forward
// TWICE-COUNT-3: dist.offload
// TWICE-NOT: dist.offload
func.func @forward(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<8x8xf32> {train.role = #train.role<saved "long">},
        tensor<8xf32> {train.role = #train.role<saved "small">},
        tensor<8x8xf32> {train.role = #train.role<saved "given">},
        tensor<8x8xf32> {train.role = #train.role<saved "shown">},
        tensor<8x8xf32> {train.role = #train.role<output "shown">})
    attributes {train.phase = #train.phase<forward>} {
  %long = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %shown = aten.relu(%long) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %small = aten.sum_dim_int_list(%shown, dim = [1]) : (tensor<8x8xf32>) -> tensor<8xf32>
  %loss = aten.mean(%small) : (tensor<8xf32>) -> tensor<f32>
  return %loss, %long, %small, %x, %shown, %shown : tensor<f32>, tensor<8x8xf32>, tensor<8xf32>,
      tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// A copy comes back beside the product before its use; what only passes it on passes the copy on.

// CHECK-LABEL: func.func @backward_input
// CHECK-SAME: %[[ARG:[a-z0-9]*]]: !dist.host<tensor<8x8xf32>> {train.role = #train.role<saved "long">}
// CHECK-SAME: -> (!dist.host<tensor<8x8xf32>> {train.role = #train.role<saved "again">}
// CHECK: aten.exp
// CHECK-NEXT: %[[BACK:.*]] = dist.reload %[[ARG]] : tensor<8x8xf32>
// CHECK-NEXT: aten.mm
// CHECK-NEXT: aten.neg
// CHECK-NEXT: aten.mul(%{{.*}}, %[[BACK]])
// CHECK: return %[[ARG]],

// LOWERED-LABEL: func.func @backward_input
// LOWERED: %[[HERE:.*]] = exec.record on compute
// LOWERED: exec.wait %[[HERE]] on host
// LOWERED-NEXT: dist.reload %{{.*}} {exec.memory = [#exec.at<{{.*}}>], exec.stream = #exec.stream<host>}
// LOWERED-NEXT: %[[THERE:.*]] = exec.record on host
// LOWERED: aten.mm
// LOWERED: exec.wait %[[THERE]] on compute
// LOWERED-NEXT: aten.mul
func.func @backward_input(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %s: tensor<f32> {train.role = #train.role<seed>},
    %long: tensor<8x8xf32> {train.role = #train.role<saved "long">},
    %small: tensor<8xf32> {train.role = #train.role<saved "small">},
    %shown: tensor<8x8xf32> {train.role = #train.role<saved "shown">})
    -> (tensor<8x8xf32> {train.role = #train.role<saved "again">},
        tensor<8x8xf32> {train.role = #train.role<saved "g">})
    attributes {train.phase = #train.phase<backward_input>} {
  %0 = aten.exp(%shown) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.mm(%0, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = aten.neg(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = aten.mul(%2, %long) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = aten.mul(%3, %small) : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %5 = aten.mul(%4, %s) : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  return %long, %5 : tensor<8x8xf32>, tensor<8x8xf32>
}

// Where no product comes before, a copy comes back right where it is used.

// CHECK-LABEL: func.func @backward_weight
// CHECK-SAME: !dist.host<tensor<8x8xf32>> {train.role = #train.role<saved "again">}
// CHECK-DAG: dist.reload %{{.*}} : tensor<8x8xf32>
// CHECK: aten.mul
// CHECK: aten.mm
func.func @backward_weight(
    %x: tensor<8x8xf32> {train.role = #train.role<saved "given">},
    %again: tensor<8x8xf32> {train.role = #train.role<saved "again">},
    %g: tensor<8x8xf32> {train.role = #train.role<saved "g">})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward_weight>} {
  %0 = aten.mul(%again, %g) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.mm(%x, %0) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
