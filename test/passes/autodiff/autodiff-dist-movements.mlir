// RUN: cleave-opt %s --autodiff --split-input-file | FileCheck %s

// Collectives that move values.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @all_gather_S_R {
module @all_gather_S_R {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S>
  %y = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<4xf32, #S> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: module @all_gather_S_I {
module @all_gather_S_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S>
  %y = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<4xf32, #S> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.fake_scatter(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<8xf32, #I_tp> -> tensor<4xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #S0_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @all_gather_V_V {
module @all_gather_V_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #V>
  %y = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @broadcast_V {
module @broadcast_V {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.broadcast(%x) root 1 over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.reduce sum(%{{.*}}) root 1 over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @broadcast_R {
module @broadcast_R {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.broadcast(%x) root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #R>
  %s = aten.sum(%y) : (tensor<8xf32, #R>) -> tensor<f32, #R>
  %l = dist.convert %s : tensor<f32, #R> -> tensor<f32, #I>
  // CHECK: dist.reduce sum(%{{.*}}) root 1 over @mesh ["tp"] {train.backward} : tensor<8xf32, #P_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @broadcast_I {
module @broadcast_I {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.broadcast(%x) root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  %s = aten.sum(%y) : (tensor<8xf32, #I>) -> tensor<f32, #I>
  // CHECK: dist.axis_index over @mesh ["tp"] {train.backward} : tensor<i64, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.eq_scalar(%{{.*}}, other = 1) {train.backward} : (tensor<i64, #V_tp>) -> tensor<i1, #V_tp>
  // CHECK-NEXT: %{{.*}} = aten.scalar_tensor(s = 0.000000e+00, dtype = f32) {train.backward} : () -> tensor<f32, #I_tp>
  // CHECK-NEXT: %{{.*}} = aten.where(%{{.*}}, %{{.*}}, %{{.*}}) {train.backward} : (tensor<i1, #V_tp>, tensor<8xf32, #I_tp>, tensor<f32, #I_tp>) -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %s : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @gather {
module @gather {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_scatter(%w) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #V>
  %y = dist.gather(%x) dim 0 root 1 over @mesh ["tp"] : tensor<4xf32, #V> -> tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.scatter(%{{.*}}) dim 0 root 1 over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @scatter {
module @scatter {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.scatter(%x) dim 0 root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<4xf32, #V>
  %s = aten.sum(%y) : (tensor<4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.gather(%{{.*}}) dim 0 root 1 over @mesh ["tp"] {train.backward} : tensor<4xf32, #V_tp> -> tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @permute {
module @permute {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.permute(%x) [0 -> 1] over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.permute(%{{.*}}) [1 -> 0] over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @shift {
module @shift {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  %y = dist.shift(%x) by 1 wrap over @mesh ["tp"] : tensor<8xf32, #V>
  %s = aten.sum(%y) : (tensor<8xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%s) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.shift(%{{.*}}) by -1 wrap over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#S = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

// CHECK-LABEL: module @all_to_all {
module @all_to_all {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<4x8xf32, #I> {train.role = #train.role<parameter "w">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.convert %w : tensor<4x8xf32, #I> -> tensor<2x8xf32, #S>
  %y = dist.all_to_all(%x) split 1 concat 0 over @mesh ["tp"] : tensor<2x8xf32, #S> -> tensor<4x4xf32, #S1>
  %s = aten.sum(%y) : (tensor<4x4xf32, #S1>) -> tensor<f32, #P>
  %l = dist.all_reduce sum(%s) over @mesh ["tp"] : tensor<f32, #P> -> tensor<f32, #I>
  // CHECK: dist.reinterpret %{{.*}} {train.backward} : tensor<4x4xf32, #R_tp> -> tensor<4x4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.reinterpret %{{.*}} {train.backward} : tensor<4x4xf32, #V_tp> -> tensor<4x4xf32, #S1_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_to_all(%{{.*}}) split 0 concat 1 over @mesh ["tp"] {train.backward} : tensor<4x4xf32, #S1_tp> -> tensor<2x8xf32, #S0_tp>
  // CHECK-NEXT: %{{.*}} = dist.all_gather(%{{.*}}) dim 0 over @mesh ["tp"] {train.backward} : tensor<2x8xf32, #S0_tp> -> tensor<4x8xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}

// -----

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: module @ragged_all_to_all {
module @ragged_all_to_all {
dist.mesh @mesh ["tp" = 2]
func.func @microbatch(%w: tensor<8x4xf32, #I> {train.role = #train.role<parameter "w">},
    %s: tensor<2xi64, #R> {train.role = #train.role<input "sends">},
    %r: tensor<2xi64, #R> {train.role = #train.role<input "receives">})
    -> (tensor<f32, #I> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %x = dist.fake_broadcast(%w) over @mesh ["tp"] : tensor<8x4xf32, #I> -> tensor<8x4xf32, #V>
  // CHECK: %[[sends:.*]] = dist.reinterpret %{{.*}} : tensor<2xi64, #R_tp> -> tensor<2xi64, #V_tp>
  %sends = dist.reinterpret %s : tensor<2xi64, #R> -> tensor<2xi64, #V>
  // CHECK-NEXT: %[[receives:.*]] = dist.reinterpret
  %receives = dist.reinterpret %r : tensor<2xi64, #R> -> tensor<2xi64, #V>
  %y = dist.ragged_all_to_all(%x, %sends, %receives) over @mesh ["tp"]
      : (tensor<8x4xf32, #V>, tensor<2xi64, #V>, tensor<2xi64, #V>) -> tensor<12x4xf32, #V>
  %t = aten.sum(%y) : (tensor<12x4xf32, #V>) -> tensor<f32, #V>
  %l = dist.fake_reduce(%t) over @mesh ["tp"] : tensor<f32, #V> -> tensor<f32, #I>
  // CHECK: dist.ragged_all_to_all(%{{.*}}, %[[receives]], %[[sends]]) over @mesh ["tp"] {train.backward} : (tensor<12x4xf32, #V_tp>, tensor<2xi64, #V_tp>, tensor<2xi64, #V_tp>) -> tensor<8x4xf32, #V_tp>
  // CHECK-NEXT: %{{.*}} = dist.fake_reduce(%{{.*}}) over @mesh ["tp"] {train.backward} : tensor<8x4xf32, #V_tp> -> tensor<8x4xf32, #I_tp>
  return %l : tensor<f32, #I>
}
}
