// RUN: cleave-opt %s --check-spmd-types | FileCheck %s

// Megatron's block with f (a convert from I to R) and g (an all_reduce from P to I): norm weights are I, so that their
// gradients need no reduction. It is still to be differentiated.

// CHECK-LABEL: module @megatron
module @megatron {
  dist.mesh @mesh ["tp" = 2]
  func.func @microbatch(
      %norm: tensor<8xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<parameter "norm.weight">},
      %wide: tensor<8x8xf32, #dist.on<@mesh, tp = S(1)>> {train.role = #train.role<parameter "up.weight">},
      %high: tensor<8x8xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<parameter "down.weight">},
      %bias: tensor<8xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<parameter "down.bias">},
      %x: tensor<4x8xf32, #dist.on<@mesh, tp = I>> {train.role = #train.role<input "x" batch 0>})
      -> (tensor<f32, #dist.on<@mesh, tp = I>> {train.role = #train.role<loss>})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = aten.mul(%x, %norm) : (tensor<4x8xf32, #dist.on<@mesh, tp = I>>, tensor<8xf32, #dist.on<@mesh, tp = I>>) -> tensor<4x8xf32, #dist.on<@mesh, tp = I>>
    %f = dist.convert %0 : tensor<4x8xf32, #dist.on<@mesh, tp = I>> -> tensor<4x8xf32, #dist.on<@mesh, tp = R>>
    %1 = aten.mm(%f, %wide) : (tensor<4x8xf32, #dist.on<@mesh, tp = R>>, tensor<8x8xf32, #dist.on<@mesh, tp = S(1)>>) -> tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>
    %2 = aten.relu(%1) : (tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>) -> tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>
    %3 = aten.mm(%2, %high) : (tensor<4x8xf32, #dist.on<@mesh, tp = S(1)>>, tensor<8x8xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4x8xf32, #dist.on<@mesh, tp = P>>
    %g = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<4x8xf32, #dist.on<@mesh, tp = P>> -> tensor<4x8xf32, #dist.on<@mesh, tp = I>>
    %4 = aten.add(%g, %bias) : (tensor<4x8xf32, #dist.on<@mesh, tp = I>>, tensor<8xf32, #dist.on<@mesh, tp = I>>) -> tensor<4x8xf32, #dist.on<@mesh, tp = I>>
    %5 = aten.sum(%4) : (tensor<4x8xf32, #dist.on<@mesh, tp = I>>) -> tensor<f32, #dist.on<@mesh, tp = I>>
    return %5 : tensor<f32, #dist.on<@mesh, tp = I>>
  }
}
