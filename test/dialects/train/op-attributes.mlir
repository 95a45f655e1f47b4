// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK-LABEL: func.func @attributes
func.func @attributes(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // CHECK: aten.t({{.*}}) {train.backward, train.checkpoint = #train.checkpoint<prefer_recompute, graph 3>, train.stage = 1 : i64}
  %0 = aten.t(%a) {train.backward, train.checkpoint = #train.checkpoint<prefer_recompute, graph 3>,
      train.stage = 1 : i64} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: #train.checkpoint<must_save, graph 0>
  %1 = aten.t(%0) {train.checkpoint = #train.checkpoint<must_save, graph 0>}
      : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: #train.checkpoint<must_recompute, graph 0>
  %2 = aten.t(%1) {train.checkpoint = #train.checkpoint<must_recompute, graph 0>}
      : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // CHECK: #train.checkpoint<prefer_save, graph 0>
  %3 = aten.t(%2) {train.checkpoint = #train.checkpoint<prefer_save, graph 0>}
      : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
