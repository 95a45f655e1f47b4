// Microbatches accumulate the pending sum of a shard's gradient: that is its type until the reduce function.
//
// RUN: cleave-opt %s --split-fsdp-collectives --check-spmd-types | FileCheck %s

// CHECK: func.func @unshard(
// CHECK: dist.all_gather
// CHECK: func.func @microbatch({{.*}} -> ({{.*}}tensor<4xf32, #[[P:[A-Z]*_dp]]> {train.role = #train.role<gradient "w">})
// CHECK-NOT: dist.reduce_scatter
// CHECK: func.func @reduce(%{{.*}}: tensor<4xf32, #[[P]]> {train.role = #train.role<gradient "w">}) -> (tensor<2xf32, #S0_dp>
// CHECK: dist.reduce_scatter

dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<2xf32, #dist.on<@mesh, dp = S(0)>> {train.role = #train.role<parameter "w">},
                      %x: tensor<4x4xf32, #dist.on<@mesh, dp = S(0)>> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<4x4xf32, #dist.on<@mesh, dp = S(0)>> {train.role = #train.role<output "0" batch 0>},
        tensor<2xf32, #dist.on<@mesh, dp = S(0)>> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = dist.all_gather(%w) dim 0 over @mesh ["dp"] : tensor<2xf32, #dist.on<@mesh, dp = S(0)>> -> tensor<4xf32, #dist.on<@mesh, dp = R>>
  %1 = aten.mul(%x, %0) : (tensor<4x4xf32, #dist.on<@mesh, dp = S(0)>>, tensor<4xf32, #dist.on<@mesh, dp = R>>) -> tensor<4x4xf32, #dist.on<@mesh, dp = S(0)>>
  %2 = aten.sum_dim_int_list(%x, dim = [0]) : (tensor<4x4xf32, #dist.on<@mesh, dp = S(0)>>) -> tensor<4xf32, #dist.on<@mesh, dp = P>>
  %3 = dist.reduce_scatter sum(%2) dim 0 over @mesh ["dp"] : tensor<4xf32, #dist.on<@mesh, dp = P>> -> tensor<2xf32, #dist.on<@mesh, dp = S(0)>>
  return %1, %3 : tensor<4x4xf32, #dist.on<@mesh, dp = S(0)>>, tensor<2xf32, #dist.on<@mesh, dp = S(0)>>
}
