// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "ep" = 2, "tp" = 3]

#V = #dist.on<@mesh, ep = V>
#VR = #dist.on<@mesh, ep = V, tp = R>
#VI = #dist.on<@mesh, ep = V, tp = I>
#VV = #dist.on<@mesh, ep = V, tp = V>
#VS1 = #dist.on<@mesh, ep = V, tp = S(1)>
#VP = #dist.on<@mesh, ep = V, tp = P>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8x4xf32>, %i: tensor<8xi64>, %s: tensor<2xi64>, %r: tensor<2xi64>) {
  // CHECK: dist.ragged_all_to_all(%{{.*}}, %{{.*}}, %{{.*}}) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<16x4xf32>{{$}}
  %0 = dist.ragged_all_to_all(%a, %s, %r) over @mesh ["ep"] : (tensor<8x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<16x4xf32>
  // CHECK: dist.ragged_all_to_all({{.*}}) over @mesh ["ep"] : (tensor<8xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3xi64>{{$}}
  %1 = dist.ragged_all_to_all(%i, %s, %r) over @mesh ["ep"] : (tensor<8xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<3xi64>
  return
}

// CHECK-LABEL: func.func @future
func.func @future(%a: tensor<8x4xf32, #V>, %s: tensor<2xi64, #V>) -> tensor<16x4xf32, #V> {
  // CHECK: dist.ragged_all_to_all({{.*}}) over @mesh ["ep"] : (tensor<8x4xf32, #V_ep>, tensor<2xi64, #V_ep>, tensor<2xi64, #V_ep>) -> !dist.future<tensor<16x4xf32, #V_ep>>{{$}}
  %0 = dist.ragged_all_to_all(%a, %s, %s) over @mesh ["ep"] : (tensor<8x4xf32, #V>, tensor<2xi64, #V>, tensor<2xi64, #V>) -> !dist.future<tensor<16x4xf32, #V>>
  %1 = dist.wait %0 : tensor<16x4xf32, #V>
  return %1 : tensor<16x4xf32, #V>
}

// CHECK-LABEL: func.func @other_axes
func.func @other_axes(%r: tensor<8x4xf32, #VR>, %v: tensor<8x4xf32, #VV>, %s1: tensor<8x4xf32, #VS1>, %p: tensor<8x4xf32, #VP>,
                      %same: tensor<2xi64, #VR>, %one: tensor<2xi64, #VI>, %own: tensor<2xi64, #VV>) {
  // CHECK: -> tensor<8x4xf32, #V_ep_R_tp>{{$}}
  %0 = dist.ragged_all_to_all(%r, %same, %one) over @mesh ["ep"] : (tensor<8x4xf32, #VR>, tensor<2xi64, #VR>, tensor<2xi64, #VI>) -> tensor<8x4xf32, #VR>
  // CHECK: -> tensor<8x4xf32, #V_ep_V_tp>{{$}}
  %1 = dist.ragged_all_to_all(%v, %own, %own) over @mesh ["ep"] : (tensor<8x4xf32, #VV>, tensor<2xi64, #VV>, tensor<2xi64, #VV>) -> tensor<8x4xf32, #VV>
  // CHECK: -> tensor<8x4xf32, #V_ep_S1_tp>{{$}}
  %2 = dist.ragged_all_to_all(%s1, %same, %same) over @mesh ["ep"] : (tensor<8x4xf32, #VS1>, tensor<2xi64, #VR>, tensor<2xi64, #VR>) -> tensor<8x4xf32, #VS1>
  // CHECK: -> tensor<8x4xf32, #V_ep_P_tp>{{$}}
  %3 = dist.ragged_all_to_all(%p, %same, %same) over @mesh ["ep"] : (tensor<8x4xf32, #VP>, tensor<2xi64, #VR>, tensor<2xi64, #VR>) -> tensor<8x4xf32, #VP>
  return
}
