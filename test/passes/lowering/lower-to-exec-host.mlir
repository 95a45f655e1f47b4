// RUN: cleave-opt %s --lower-to-exec | FileCheck %s
// RUN: cleave-opt %s --lower-to-exec --lower-to-exec | FileCheck %s
// RUN: cleave-opt %s --lower-to-exec --canonicalize --verify-exec -o /dev/null

// Three streams. A communication reads what comes back from the host: it waits for the host's stream, not for
// computation, which has made none of it. Computation waits for the communication, and by that for the copy.

dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @backward
// CHECK: %[[BEGIN:.*]] = exec.record on compute
// CHECK: exec.wait %[[BEGIN]] on host
// CHECK-NEXT: %[[BACK:.*]] = dist.reload
// CHECK-NEXT: %[[THERE:.*]] = exec.record on host
// CHECK-NOT: exec.record on compute
// CHECK: exec.wait %[[THERE]] on communication
// CHECK: dist.shift(%[[BACK]])
// CHECK-NEXT: %[[SENT:.*]] = exec.record on communication
// CHECK-NEXT: exec.wait %[[SENT]] on compute
// CHECK-NOT: exec.wait
// CHECK: aten.mul
// CHECK-NOT: exec.wait
// CHECK: return
func.func @backward(
    %s: tensor<f32> {train.role = #train.role<seed>},
    %h: !dist.host<tensor<4x8xf32>> {train.role = #train.role<saved "h">})
    -> (tensor<4x8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<backward>} {
  %0 = dist.reload %h : tensor<4x8xf32>
  %1 = dist.shift(%0) by 1 wrap over @mesh ["dp"] : tensor<4x8xf32>
  %2 = aten.mul(%1, %0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = aten.mul(%2, %s) : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
