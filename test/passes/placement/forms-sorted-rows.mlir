// RUN: cleave-opt %s --partition --check-spmd-types | FileCheck %s

// Rows that a backward puts back by the indices of the forward's sort, which it has as a saved value: each rank puts its own
// rows among zeros.

#S0 = #dist.on<@mesh, dp = S(0)>
#R = #dist.on<@mesh, dp = R>
#P = #dist.on<@mesh, dp = P>
dist.mesh @mesh ["dp" = 2]

// CHECK-LABEL: func.func @forward
// CHECK-SAME: -> (tensor<4xi64, #S0_dp>
// CHECK: dist.all_gather
// CHECK: aten.sort_stable
func.func @forward(%numbers: tensor<8xi64> {train.role = #train.role<input "numbers" batch 0>, dist.placement = #S0})
    -> (tensor<8xi64> {train.role = #train.role<saved "places">, dist.placement = #S0})
    attributes {train.phase = #train.phase<forward>} {
  %values, %places = aten.sort_stable(%numbers, stable = true) {dist.operands = [#S0], dist.results = [#S0, #S0]}
      : (tensor<8xi64>) -> (tensor<8xi64>, tensor<8xi64>)
  return %places : tensor<8xi64>
}

// CHECK-LABEL: func.func @backward
// CHECK-SAME: (%[[PLACES:.*]]: tensor<4xi64, #S0_dp>{{.*}}, %[[ROWS:.*]]: tensor<4x3xf32, #S0_dp>
// CHECK-NOT: dist.all_gather
// CHECK: aten.index_put({{.*}}) : (tensor<8x3xf32, {{.*}}>, tensor<4xi64, {{.*}}>, tensor<4x3xf32, {{.*}}>) -> tensor<8x3xf32
// CHECK-NOT: dist.all_gather
// CHECK: return {{.*}} : tensor<8x3xf32, #P_dp>
func.func @backward(%places: tensor<8xi64> {train.role = #train.role<saved "places">, dist.placement = #S0},
                    %rows: tensor<8x3xf32> {train.role = #train.role<input "rows" batch 0>, dist.placement = #S0})
    -> (tensor<8x3xf32> {train.role = #train.role<gradient "x">, dist.placement = #P})
    attributes {train.phase = #train.phase<backward>} {
  %zeros = aten.zeros(size = [8, 3], dtype = f32) {dist.results = [#R]} : () -> tensor<8x3xf32>
  %put = aten.index_put(%zeros, [%places], %rows) {dist.operands = [#R, #S0, #S0], dist.results = [#P]}
      : (tensor<8x3xf32>, tensor<8xi64>, tensor<8x3xf32>) -> tensor<8x3xf32>
  return %put : tensor<8x3xf32>
}
