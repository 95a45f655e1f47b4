// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="at=b,c" | FileCheck %s
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="at=b,c explain=true" -o %t 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="at=b,c" --split-backward --verify-split-backward | FileCheck %s --check-prefix=SPLIT
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="count=2 balance=cost" | FileCheck %s --check-prefix=TWO
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="count=1" | FileCheck %s --check-prefix=ONE

// The value of module a goes through stage 1 to stage 2, the two gradients of it are added in stage 1.
// CHECK: func.func @forward_0(%[[X:.*]]: {{.*}}input "x" batch 0{{.*}}, %[[U:.*]]: {{.*}}parameter "a.weight"
// CHECK-SAME: -> (tensor<2x4xf32> {train.role = #train.role<crossing "a.mm">})
// CHECK-SAME: attributes {train.phase = #train.phase<forward>, train.stage = 0 : i64}
// CHECK: %[[H:.*]] = aten.mm(%[[X]], %[[U]])
// CHECK: return %[[H]]
// CHECK: func.func @forward_1(%[[V:.*]]: {{.*}}parameter "b.weight">}, %[[H:.*]]: {{.*}}crossing "a.mm">})
// CHECK-SAME: -> ({{.*}}crossing "a.mm">}, {{.*}}crossing "b.mm">}, {{.*}}saved "a.mm">})
// CHECK: %[[M:.*]] = aten.mm(%[[H]], %[[V]])
// CHECK: return %[[H]], %[[M]], %[[H]]
// CHECK: func.func @forward_2({{.*}}crossing "a.mm">}, {{.*}}crossing "b.mm">}) -> (tensor<f32> {train.role = #train.role<loss>}
// CHECK: func.func @backward_2(
// CHECK-SAME: -> ({{.*}}crossing_gradient "c.mul">}, {{.*}}crossing_gradient "c.mul.1">}) attributes {train.phase = #train.phase<backward>, train.stage = 2 : i64}
// CHECK: func.func @backward_1({{.*}}accumulator "b.weight"{{.*}}crossing_gradient "c.mul">}, {{.*}}crossing_gradient "c.mul.1">}
// CHECK-SAME: -> ({{.*}}gradient "b.weight">}, {{.*}}crossing_gradient "b.add">})
// CHECK: aten.add
// CHECK: train.accumulate
// CHECK: func.func @backward_0({{.*}}crossing_gradient "b.add">}) -> ({{.*}}gradient "a.weight">})
// CHECK: func.func @update_0({{.*}}) -> (tensor<4x4xf32> {train.role = #train.role<parameter "a.weight">})
// CHECK: func.func @update_1({{.*}}parameter "b.weight"
// CHECK-NOT: @update_2

// EXPLAIN: stage 0: 1 ops forward, 3 backward, 33.0 % of the forward's cost
// EXPLAIN-NEXT: to stage 1: 1 values, 32 bytes; back: 1 gradients, 32 bytes
// EXPLAIN-NEXT: stage 1: 1 ops forward
// EXPLAIN-NEXT: to stage 2: 2 values, 64 bytes; back: 2 gradients, 64 bytes
// EXPLAIN-NEXT: stage 2: 2 ops forward

// The gradient of what came from the stage before is dI's.
// SPLIT: func.func @[[I:.*]]({{.*}}crossing_gradient "c.mul"{{.*}} -> ({{.*}}crossing_gradient "b.add">}
// SPLIT-SAME: train.phase = #train.phase<backward_input>, train.stage = 1 : i64
// SPLIT: func.func @{{.*}} -> ({{.*}}gradient "b.weight">}) attributes {train.phase = #train.phase<backward_weight>, train.stage = 1 : i64}

// The cut that balances best is behind the second product; the one before it costs as little within
// the slack and sends half as much.
// TWO: @forward_0
// TWO: aten.mm
// TWO-NOT: aten.mm
// TWO: @forward_1
// TWO: aten.mm
// TWO: aten.mul
// TWO-NOT: @forward_2

// ONE: @forward_0
// ONE-NOT: crossing
// ONE: @update_0
