// What the exporter and --partition leave behind a gradient's reduction moves in front of it: the reduction then
// scatters the dimension of the parameter that is sharded, and the gradient is of the parameter's type on other axes.
//
// RUN: cleave-opt %s --split-input-file --split-fsdp-collectives | FileCheck %s

// A product whose sum is scattered, transposed twice; the second dimension is the scattered one then.

// CHECK-LABEL: func.func @microbatch(
// CHECK: %[[M:.*]] = aten.mm(
// CHECK-NEXT: %[[T:.*]] = aten.t(%[[M]]) : (tensor<8x4xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: train.accumulate %[[T]] into %{{.*}} : tensor<4x8xf32>
// CHECK-LABEL: func.func @reduce(
// CHECK: dist.reduce_scatter sum(%{{.*}}) dim 1 over @mesh ["dp"] : tensor<4x8xf32> -> tensor<4x4xf32>
// CHECK-NEXT: return
module {
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4x4xf32> {train.role = #train.role<parameter "w">},
                      %a: tensor<4x4xf32> {train.role = #train.role<accumulator "w">},
                      %x: tensor<2x8xf32> {train.role = #train.role<input "x">},
                      %y: tensor<2x4xf32> {train.role = #train.role<input "y">})
    -> (tensor<4x4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.t(%x) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %1 = aten.mm(%0, %y) : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32>
  %2 = dist.reduce_scatter sum(%1) dim 0 over @mesh ["dp"] : tensor<8x4xf32> -> tensor<4x4xf32>
  %3 = aten.t(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = train.accumulate %3 into %a : tensor<4x4xf32>
  return %4 : tensor<4x4xf32>
}
}

// -----

// A bias of which tensor parallelism and full sharding both take a part: scattered in dimension 2 of its
// gradient, then viewed as one dimension. And a norm's weight, which tensor parallelism leaves whole.

// CHECK-LABEL: func.func @microbatch(
// CHECK: aten.view(%{{.*}}, size = [4]) : (tensor<1x1x4xf32, #{{.*}}>) -> tensor<4xf32, #P_dp_S0_tp>
// CHECK: aten.view(%{{.*}}, size = [8]) : (tensor<1x1x8xf32, #{{.*}}>) -> tensor<8xf32, #P_dp_R_tp>
// CHECK: dist.convert %{{.*}} : tensor<8xf32, #P_dp_R_tp> -> tensor<8xf32, #P_dp_I_tp>
// CHECK-LABEL: func.func @reduce(
// CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["dp"] : tensor<4xf32, #P_dp_S0_tp> -> tensor<2xf32, #S0o1_dp_S0o0_tp>
// CHECK-NEXT: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["dp"] : tensor<8xf32, #P_dp_I_tp> -> tensor<4xf32, #S0_dp_I_tp>
// CHECK-NEXT: return
module {
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @microbatch(%b: tensor<2xf32, #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>> {train.role = #train.role<parameter "b">},
                      %n: tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = I>> {train.role = #train.role<parameter "n">},
                      %x: tensor<2x3x4xf32, #dist.on<@mesh, dp = S(0), tp = S(2)>> {train.role = #train.role<input "x" batch 0>},
                      %y: tensor<2x3x8xf32, #dist.on<@mesh, dp = S(0), tp = R>> {train.role = #train.role<input "y" batch 0>})
    -> (tensor<2xf32, #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>> {train.role = #train.role<gradient "b">},
        tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = I>> {train.role = #train.role<gradient "n">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.sum_dim_int_list(%x, dim = [0, 1], keepdim = true) : (tensor<2x3x4xf32, #dist.on<@mesh, dp = S(0), tp = S(2)>>) -> tensor<1x1x4xf32, #dist.on<@mesh, dp = P, tp = S(2)>>
  %1 = dist.reduce_scatter sum(%0) dim 2 over @mesh ["dp"] : tensor<1x1x4xf32, #dist.on<@mesh, dp = P, tp = S(2)>> -> tensor<1x1x2xf32, #dist.on<@mesh, dp = S(2, 1), tp = S(2, 0)>>
  %2 = aten.view(%1, size = [2]) : (tensor<1x1x2xf32, #dist.on<@mesh, dp = S(2, 1), tp = S(2, 0)>>) -> tensor<2xf32, #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>>
  %3 = aten.sum_dim_int_list(%y, dim = [0, 1], keepdim = true) : (tensor<2x3x8xf32, #dist.on<@mesh, dp = S(0), tp = R>>) -> tensor<1x1x8xf32, #dist.on<@mesh, dp = P, tp = R>>
  %4 = dist.reduce_scatter sum(%3) dim 2 over @mesh ["dp"] : tensor<1x1x8xf32, #dist.on<@mesh, dp = P, tp = R>> -> tensor<1x1x4xf32, #dist.on<@mesh, dp = S(2), tp = R>>
  %5 = aten.view(%4, size = [4]) : (tensor<1x1x4xf32, #dist.on<@mesh, dp = S(2), tp = R>>) -> tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = R>>
  %6 = dist.convert %5 : tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = R>> -> tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = I>>
  return %2, %6 : tensor<2xf32, #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>>, tensor<4xf32, #dist.on<@mesh, dp = S(0), tp = I>>
}
}

// -----

// A view that merges the scattered dimension behind another one stays: parts of the whole are not its parts.

// CHECK-LABEL: func.func @reduce(
// CHECK: dist.reduce_scatter sum(%{{.*}}) dim 1 over @mesh ["dp"] : tensor<2x4xf32> -> tensor<2x2xf32>
// CHECK-NEXT: aten.view(%{{.*}}, size = [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
module {
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<2x4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %x) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = dist.reduce_scatter sum(%0) dim 1 over @mesh ["dp"] : tensor<2x4xf32> -> tensor<2x2xf32>
  %2 = aten.view(%1, size = [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
}

// -----

// A view of what lies by columns is one of a copy; what communication gave lay by rows.

// CHECK-LABEL: func.func @microbatch(
// CHECK: %[[T:.*]] = aten.t(
// CHECK-NEXT: %[[C:.*]] = aten.clone(%[[T]], memory_format = "contiguous_format") : (tensor<4x2xf32>) -> tensor<4x2xf32>
// CHECK-NEXT: aten.view(%[[C]], size = [8]) : (tensor<4x2xf32>) -> tensor<8xf32>
// CHECK-LABEL: func.func @reduce(
// CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["dp"] : tensor<8xf32> -> tensor<4xf32>
// CHECK-NEXT: return
module {
dist.mesh @mesh ["dp" = 2]
func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                      %x: tensor<2x4xf32> {train.role = #train.role<input "x">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %x) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = aten.t(%0) : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %2 = dist.reduce_scatter sum(%1) dim 0 over @mesh ["dp"] : tensor<4x2xf32> -> tensor<2x2xf32>
  %3 = aten.view(%2, size = [4]) : (tensor<2x2xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}
}
