// The example of the description, with both policies: cos's argument is saved as it is; what is
// computed from it by cheap ops is computed again only by min-cut.

// RUN: cleave-opt %s --partition-joint="policy=save-all" | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: cleave-opt %s --partition-joint | FileCheck %s --check-prefixes=CHECK,CUT
// RUN: cleave-opt %s --partition-joint="recompute=views" | FileCheck %s --check-prefixes=CHECK,VIEWS
// RUN: cleave-opt %s --partition-joint="recompute=all" | FileCheck %s --check-prefixes=CHECK,EVERYTHING
// Bytes may sum to more than fits the cut's usual scale: rows enough for 1 PiB a tensor.
// RUN: sed -e 's/4x8x/35184372088832x8x/g' -e 's/8x4x/8x35184372088832x/g' -e 's/\[4, 8\]/[35184372088832, 8]/g' %s \
// RUN:   | cleave-opt --partition-joint | FileCheck %s --check-prefix=LARGE
// LARGE-LABEL: func.func @forward(
// LARGE-SAME: tensor<35184372088832x8xf32> {train.role = #train.role<saved "proj.mm">})

// The saved value is a result of the forward and an argument of the backward, under its place in
// the model; inputs and parameters are arguments of both, what nobody uses stays in the forward.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: #train.role<parameter "w">
// CHECK-SAME: #train.role<input "x" batch 0>
// CHECK-SAME: #train.role<constant "unused">
// ALL-SAME: tensor<8x4xf32> {train.role = #train.role<saved "t">}, tensor<4x8xf32> {train.role = #train.role<saved "proj.mm">}, tensor<4x8xf32> {train.role = #train.role<saved "exp">})
// CUT-SAME: tensor<4x8xf32> {train.role = #train.role<saved "proj.mm">})
// VIEWS-SAME: tensor<4x8xf32> {train.role = #train.role<saved "proj.mm">}, tensor<4x8xf32> {train.role = #train.role<saved "exp">})
// EVERYTHING-SAME: -> (tensor<f32> {train.role = #train.role<loss>})
// CHECK-SAME: attributes {train.draws = 0 : i64, train.phase = #train.phase<forward>}
// CHECK: aten.mean
// CHECK-NOT: aten.sin
// CHECK-LABEL: func.func @backward(
// CHECK-SAME: #train.role<accumulator "w">
// CHECK-SAME: #train.role<seed>
// CHECK-SAME: -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">}) attributes {train.phase = #train.phase<backward>}
// ALL-NOT: train.recomputed
// VIEWS-NOT: aten.exp(
// CUT: aten.expand
// CUT-NEXT: aten.sin
// CUT-NEXT: aten.neg
// CUT-NEXT: aten.mul
// CUT-NEXT: aten.exp({{.*}}) {train.recomputed}
// CUT-NEXT: aten.mul
// CUT-NEXT: aten.t({{.*}}) {train.recomputed}
// VIEWS: aten.t({{.*}}) {train.recomputed}
// EVERYTHING: aten.mm({{.*}}) {train.recomputed}
// EVERYTHING: aten.sin
// CHECK: train.accumulate
// CHECK-NOT: @microbatch
module @cosine {
  func.func @microbatch(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
      %a: tensor<8x8xf32> {train.role = #train.role<accumulator "w">},
      %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>},
      %s: tensor<f32> {train.role = #train.role<seed>},
      %unused: tensor<2xf32> {train.role = #train.role<constant "unused">})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<8x8xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>, train.draws = 0 : i64} {
    %xt = aten.t(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %xx = aten.mm(%xt, %x) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %h = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> loc("proj"("model.py":3:0))
    %e = aten.exp(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %c = aten.cos(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %y = aten.add(%e, %c) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %z = aten.mm(%y, %xx) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %loss = aten.mean(%z) : (tensor<4x8xf32>) -> tensor<f32>
    %0 = aten.sin(%h) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = aten.neg(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = aten.expand(%s, size = [4, 8]) : (tensor<f32>) -> tensor<4x8xf32>
    %3 = aten.mul(%2, %1) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = aten.mul(%3, %e) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = aten.mm(%xt, %4) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
    %6 = train.accumulate %5 into %a : tensor<8x8xf32>
    return %loss, %6 : tensor<f32>, tensor<8x8xf32>
  }
}
