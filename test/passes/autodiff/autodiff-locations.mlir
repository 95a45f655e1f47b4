// RUN: cleave-opt %s --autodiff --mlir-print-debuginfo | FileCheck %s

// Ops of the backward have the location of the op that they differentiate, sums of gradients that of the op
// whose gradient came last.

// CHECK: [[SUM:#.*]] = loc("m.py":3:0)
// CHECK: aten.exp({{.*}}) {{.*}} loc([[EXP:#.*]])
// CHECK: aten.expand({{.*}}) {train.backward} {{.*}} loc([[SUM]])
// CHECK: aten.mul({{.*}}) {train.backward} {{.*}} loc([[MUL:#.*]])
// CHECK: aten.mul({{.*}}) {train.backward} {{.*}} loc([[MUL]])
// CHECK: aten.mul({{.*}}) {train.backward} {{.*}} loc([[EXP]])
// CHECK: aten.add({{.*}}) {train.backward} {{.*}} loc([[EXP]])
// CHECK: [[EXP]] = loc("m.py":1:0)
// CHECK: [[MUL]] = loc("m.py":2:0)
func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.exp(%w) : (tensor<8xf32>) -> tensor<8xf32> loc("m.py":1:0)
  %1 = aten.mul(%0, %w) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> loc("m.py":2:0)
  %2 = aten.sum(%1) : (tensor<8xf32>) -> tensor<f32> loc("m.py":3:0)
  return %2 : tensor<f32>
}
