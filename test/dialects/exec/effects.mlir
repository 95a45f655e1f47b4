// RUN: cleave-opt %s --cse | FileCheck %s
// RUN: cleave-opt %s --canonicalize | FileCheck %s --check-prefix=CANONICAL

// An event is a place in a stream. CSE leaves each, since each has one wait; canonicalization makes one
// of two that are the same place, and leaves those with an op between them.

dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @microbatch
// CANONICAL-LABEL: func.func @microbatch
func.func @microbatch(%x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<4x8xf32> {train.role = #train.role<output "0" batch 0>})
    attributes {train.phase = #train.phase<microbatch>,
                exec.lowered = #exec.lowered<cpu, arena = 256, alignment = 64>} {
  %0 = aten.add(%x, %x) {exec.memory = [#exec.at<0>]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[E:.*]] = exec.record on compute
  // CHECK-NEXT: %[[F:.*]] = exec.record on compute
  // CHECK-NEXT: exec.wait %[[F]] on communication
  // CHECK: exec.wait %[[E]] on communication
  // CANONICAL: %[[F:.*]] = exec.record on compute
  // CANONICAL-NEXT: exec.wait %[[F]] on communication
  // CANONICAL-NEXT: dist.all_reduce
  // CANONICAL-NEXT: dist.all_reduce
  %e = exec.record on compute
  %f = exec.record on compute
  exec.wait %f on communication
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] {exec.memory = [#exec.same<0>], exec.stream = #exec.stream<communication>, exec.call = 0 : i64} : tensor<4x8xf32>
  exec.wait %e on communication
  %2 = dist.all_reduce sum(%1) over @mesh ["dp"] {exec.memory = [#exec.same<0>], exec.stream = #exec.stream<communication>, exec.call = 1 : i64} : tensor<4x8xf32>
  // CANONICAL-NEXT: %[[G:.*]] = exec.record on communication
  // CANONICAL-NEXT: exec.wait %[[G]] on compute
  %g = exec.record on communication
  exec.wait %g on compute
  // CANONICAL-NEXT: aten.mul
  // CANONICAL-NEXT: %[[H:.*]] = exec.record on compute
  // CANONICAL-NEXT: aten.relu
  // CANONICAL-NEXT: %[[I:.*]] = exec.record on compute
  // CANONICAL-NEXT: exec.wait %[[H]] on communication
  // CANONICAL-NEXT: exec.wait %[[I]] on communication
  %3 = aten.mul(%2, %2) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = exec.record on compute
  %4 = aten.relu(%3) {exec.memory = [#exec.apart]} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %i = exec.record on compute
  exec.wait %h on communication
  exec.wait %i on communication
  return %4 : tensor<4x8xf32>
}
