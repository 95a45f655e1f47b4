// RUN: cleave-opt %s --canonicalize --cse | FileCheck %s

// Messages between single ranks and barriers stay, each of them; collectives are values, of which equal
// ones are one and unused ones none: all ranks run the same.

dist.mesh @mesh ["tp" = 2]

#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: func.func @send
// CHECK-COUNT-2: dist.send
// CHECK: return
func.func @send(%x: tensor<8xf32, #V>) {
  dist.send(%x) from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  dist.send(%x) from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  return
}

// The second message with a tag is not the first.
// CHECK-LABEL: func.func @receive
// CHECK-NEXT: %[[A:.*]] = dist.receive
// CHECK-NEXT: %[[B:.*]] = dist.receive
// CHECK-NEXT: dist.receive
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @receive() -> (tensor<8xf32, #V>, tensor<8xf32, #V>) {
  %a = dist.receive from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  %b = dist.receive from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  %unused = dist.receive from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V>
  return %a, %b : tensor<8xf32, #V>, tensor<8xf32, #V>
}

// CHECK-LABEL: func.func @barrier
// CHECK-COUNT-2: dist.barrier
// CHECK: return
func.func @barrier() {
  dist.barrier over @mesh ["tp"]
  dist.barrier over @mesh ["tp"]
  return
}

// CHECK-LABEL: func.func @wait_for_completion
// CHECK: dist.send
// CHECK-NEXT: dist.wait
// CHECK-NEXT: return
func.func @wait_for_completion(%x: tensor<8xf32, #V>) {
  %sent = dist.send(%x) from 0 to 1 tag 8 over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<none>
  %done = dist.wait %sent : none
  return
}

// CHECK-LABEL: func.func @collectives
// CHECK-NEXT: %[[A:.*]] = dist.shift
// CHECK-NEXT: return %[[A]], %[[A]]
func.func @collectives(%x: tensor<8xf32, #V>) -> (tensor<8xf32, #V>, tensor<8xf32, #V>) {
  %a = dist.shift(%x) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V>
  %b = dist.shift(%x) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V>
  %unused = dist.shift(%x) by 2 wrap over @mesh ["tp"] : tensor<8xf32, #V>
  return %a, %b : tensor<8xf32, #V>, tensor<8xf32, #V>
}

// A started collective that nobody waits for goes too; a wait for a value is that value.
// CHECK-LABEL: func.func @futures
// CHECK-NEXT: %[[F:.*]] = dist.shift
// CHECK-NEXT: %[[A:.*]] = dist.wait %[[F]]
// CHECK-NEXT: return %[[A]], %[[A]]
func.func @futures(%x: tensor<8xf32, #V>) -> (tensor<8xf32, #V>, tensor<8xf32, #V>) {
  %f = dist.shift(%x) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  %unused = dist.shift(%x) by 2 wrap over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  %a = dist.wait %f : tensor<8xf32, #V>
  %b = dist.wait %f : tensor<8xf32, #V>
  return %a, %b : tensor<8xf32, #V>, tensor<8xf32, #V>
}
