// RUN: cleave-opt %s --simplify-communication | FileCheck %s

#R = #dist.on<@mesh, dp = R, tp = R>
#I = #dist.on<@mesh, dp = R, tp = I>
#P = #dist.on<@mesh, dp = R, tp = P>
#M = #dist.on<@mesh, dp = R, tp = P(max)>
#V = #dist.on<@mesh, dp = R, tp = V>
#S0 = #dist.on<@mesh, dp = R, tp = S(0)>
#S1 = #dist.on<@mesh, dp = R, tp = S(1)>
#PP = #dist.on<@mesh, dp = P, tp = P>
#PR = #dist.on<@mesh, dp = P, tp = R>
#PS = #dist.on<@mesh, dp = P, tp = S(0)>
#SS = #dist.on<@mesh, dp = S(0, 1), tp = S(0)>
#VP = #dist.on<@mesh, dp = V, tp = P>
#VV = #dist.on<@mesh, dp = V, tp = V>

dist.mesh @mesh ["dp" = 2, "tp" = 2]

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @gather_of_slice(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32, #R_dp_R_tp>
func.func @gather_of_slice(%x: tensor<4x8xf32, #R>) -> (tensor<4x8xf32, #R>, tensor<4x8xf32, #I>) {
  %0 = dist.convert %x : tensor<4x8xf32, #R> -> tensor<2x8xf32, #S0>
  %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x8xf32, #S0> -> tensor<4x8xf32, #R>
  // CHECK: %[[I:.*]] = dist.convert %[[X]] : tensor<4x8xf32, #R_dp_R_tp> -> tensor<4x8xf32, #R_dp_I_tp>
  %2 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x8xf32, #S0> -> tensor<4x8xf32, #I>
  // CHECK: return %[[X]], %[[I]]
  return %1, %2 : tensor<4x8xf32, #R>, tensor<4x8xf32, #I>
}

// A slice of V means nothing without its dimension; what is gathered along another one is another value.
// CHECK-LABEL: func.func @gather_of_other_slice(
// CHECK: %[[SLICE:.*]] = dist.convert
// CHECK: dist.all_gather(%[[SLICE]]) dim 1
func.func @gather_of_other_slice(%x: tensor<4x8xf32, #R>) -> (tensor<2x16xf32, #R>) {
  %0 = dist.convert %x dim 0 : tensor<4x8xf32, #R> -> tensor<2x8xf32, #V>
  %1 = dist.all_gather(%0) dim 1 over @mesh ["tp"] : tensor<2x8xf32, #V> -> tensor<2x16xf32, #R>
  return %1 : tensor<2x16xf32, #R>
}

// CHECK-LABEL: func.func @gather_of_reduce_scatter(
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"] : {{.*}} -> tensor<4x8xf32, #R_dp_I_tp>
// CHECK-NEXT: return %[[R]]
func.func @gather_of_reduce_scatter(%x: tensor<4x8xf32, #P>) -> tensor<4x8xf32, #I> {
  %0 = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<2x8xf32, #S0>
  %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x8xf32, #S0> -> tensor<4x8xf32, #I>
  return %1 : tensor<4x8xf32, #I>
}

// The shard is used besides: an all_reduce would move more.
// CHECK-LABEL: func.func @gather_of_used_reduce_scatter(
// CHECK: dist.reduce_scatter
// CHECK: dist.all_gather
func.func @gather_of_used_reduce_scatter(%x: tensor<4x8xf32, #P>) -> (tensor<2x8xf32, #S0>, tensor<4x8xf32, #R>) {
  %0 = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<2x8xf32, #S0>
  %1 = dist.all_gather(%0) dim 0 over @mesh ["tp"] : tensor<2x8xf32, #S0> -> tensor<4x8xf32, #R>
  return %0, %1 : tensor<2x8xf32, #S0>, tensor<4x8xf32, #R>
}

// CHECK-LABEL: func.func @pairs(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32, #R_dp_I_tp>, %[[Y:.*]]: tensor<2x8xf32, #R_dp_S0_tp>
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @pairs(%x: tensor<4x8xf32, #I>, %y: tensor<2x8xf32, #S0>) -> (tensor<4x8xf32, #I>, tensor<2x8xf32, #S0>) {
  %0 = dist.fake_scatter(%x) dim 1 over @mesh ["tp"] : tensor<4x8xf32, #I> -> tensor<4x4xf32, #S1>
  %1 = dist.fake_gather(%0) dim 1 over @mesh ["tp"] : tensor<4x4xf32, #S1> -> tensor<4x8xf32, #I>
  %2 = dist.all_to_all(%y) split 1 concat 0 over @mesh ["tp"] : tensor<2x8xf32, #S0> -> tensor<4x4xf32, #S1>
  %3 = dist.all_to_all(%2) split 0 concat 1 over @mesh ["tp"] : tensor<4x4xf32, #S1> -> tensor<2x8xf32, #S0>
  return %1, %3 : tensor<4x8xf32, #I>, tensor<2x8xf32, #S0>
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @conversions(
// CHECK-SAME: %[[I:.*]]: tensor<4x8xf32, #R_dp_I_tp>, %[[V:.*]]: tensor<4x8xf32, #R_dp_V_tp>, %[[R:.*]]: tensor<4x8xf32, #R_dp_R_tp>
func.func @conversions(%i: tensor<4x8xf32, #I>, %v: tensor<4x8xf32, #V>, %r: tensor<4x8xf32, #R>)
    -> (tensor<4x8xf32, #I>, tensor<2x8xf32, #S0>, tensor<4x8xf32, #P>, tensor<4x8xf32, #V>, tensor<4x8xf32, #P>) {
  %0 = dist.convert %i : tensor<4x8xf32, #I> -> tensor<4x8xf32, #R>
  %1 = dist.convert %0 : tensor<4x8xf32, #R> -> tensor<4x8xf32, #I>
  // CHECK-NEXT: %[[S:.*]] = dist.convert %[[I]] : tensor<4x8xf32, #R_dp_I_tp> -> tensor<2x8xf32, #R_dp_S0_tp>
  %2 = dist.convert %0 : tensor<4x8xf32, #R> -> tensor<2x8xf32, #S0>
  // CHECK-NEXT: %[[P:.*]] = dist.convert %[[I]] : tensor<4x8xf32, #R_dp_I_tp> -> tensor<4x8xf32, #R_dp_P_tp>
  %3 = dist.convert %2 : tensor<2x8xf32, #S0> -> tensor<4x8xf32, #P>
  %4 = dist.reinterpret %v : tensor<4x8xf32, #V> -> tensor<4x8xf32, #S1>
  %5 = dist.reinterpret %4 : tensor<4x8xf32, #S1> -> tensor<4x8xf32, #V>
  // CHECK-NEXT: %[[N:.*]] = dist.reinterpret %[[R]] : tensor<4x8xf32, #R_dp_R_tp> -> tensor<4x8xf32, #R_dp_P_tp>
  %6 = dist.reinterpret %r : tensor<4x8xf32, #R> -> tensor<4x8xf32, #V>
  %7 = dist.reinterpret %6 : tensor<4x8xf32, #V> -> tensor<4x8xf32, #P>
  // CHECK-NEXT: return %[[I]], %[[S]], %[[P]], %[[V]], %[[N]]
  return %1, %2, %3, %5, %7 : tensor<4x8xf32, #I>, tensor<2x8xf32, #S0>, tensor<4x8xf32, #P>, tensor<4x8xf32, #V>, tensor<4x8xf32, #P>
}

// A convert keeps the meaning, a reinterpret the bits: the two together are neither. Nor is what is sliced along one
// dimension and padded along another.
// CHECK-LABEL: func.func @not_one_conversion(
// CHECK: dist.reinterpret
// CHECK: dist.convert
// CHECK: dist.convert {{.*}} dim 0
// CHECK: dist.convert {{.*}} dim 1
func.func @not_one_conversion(%r: tensor<4x8xf32, #R>) -> (tensor<8x8xf32, #P>, tensor<2x16xf32, #P>) {
  %0 = dist.reinterpret %r : tensor<4x8xf32, #R> -> tensor<4x8xf32, #V>
  %1 = dist.convert %0 dim 0 : tensor<4x8xf32, #V> -> tensor<8x8xf32, #P>
  %2 = dist.convert %r dim 0 : tensor<4x8xf32, #R> -> tensor<2x8xf32, #V>
  %3 = dist.convert %2 dim 1 : tensor<2x8xf32, #V> -> tensor<2x16xf32, #P>
  return %1, %3 : tensor<8x8xf32, #P>, tensor<2x16xf32, #P>
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @two_axes(
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["tp", "dp"] : tensor<8xf32, #P_dp_P_tp> -> tensor<8xf32, #R_dp_R_tp>
// CHECK-NEXT: return %[[R]]
func.func @two_axes(%x: tensor<8xf32, #PP>) -> tensor<8xf32, #R> {
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #PP> -> tensor<8xf32, #PR>
  %1 = dist.all_reduce sum(%0) over @mesh ["dp"] : tensor<8xf32, #PR> -> tensor<8xf32, #R>
  return %1 : tensor<8xf32, #R>
}

// One op makes one transition.
// CHECK-LABEL: func.func @two_transitions(
// CHECK-NEXT: dist.all_reduce sum(%{{.*}}) over @mesh ["dp"]
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum(%{{.*}}) over @mesh ["tp"]
// CHECK-NEXT: return %[[R]]
func.func @two_transitions(%x: tensor<8xf32, #PP>) -> tensor<8xf32, #I> {
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<8xf32, #PP> -> tensor<8xf32, #P>
  %1 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  return %1 : tensor<8xf32, #I>
}

// A maximum of maxima that all ranks have; a sum of sums is another value.
// CHECK-LABEL: func.func @again(
// CHECK-NEXT: %[[MAX:.*]] = dist.all_reduce max
// CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum
// CHECK-NEXT: %[[SUMS:.*]] = dist.all_reduce sum
// CHECK-NEXT: return %[[MAX]], %[[SUMS]]
func.func @again(%x: tensor<8xf32, #V>) -> (tensor<8xf32, #V>, tensor<8xf32, #V>) {
  %0 = dist.all_reduce max(%x) over @mesh ["tp"] : tensor<8xf32, #V>
  %1 = dist.all_reduce max(%0) over @mesh ["tp"] : tensor<8xf32, #V>
  %2 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #V>
  %3 = dist.all_reduce sum(%2) over @mesh ["tp"] : tensor<8xf32, #V>
  return %1, %3 : tensor<8xf32, #V>, tensor<8xf32, #V>
}

// CHECK-LABEL: func.func @slice(
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #R_dp_P_tp> -> tensor<4xf32, #R_dp_S0_tp>
// CHECK-NEXT: return %[[S]]
func.func @slice(%x: tensor<8xf32, #P>) -> tensor<4xf32, #S0> {
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  %1 = dist.convert %0 : tensor<8xf32, #I> -> tensor<4xf32, #S0>
  return %1 : tensor<4xf32, #S0>
}

// The other axis reduces the shard: half the bytes.
// CHECK-LABEL: func.func @slice_on_two_axes(
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp"] : tensor<8xf32, #P_dp_P_tp> -> tensor<4xf32, #P_dp_S0_tp>
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum(%[[S]]) over @mesh ["dp"] : tensor<4xf32, #P_dp_S0_tp> -> tensor<4xf32, #R_dp_S0_tp>
// CHECK-NEXT: return %[[R]]
func.func @slice_on_two_axes(%x: tensor<8xf32, #PP>) -> tensor<4xf32, #S0> {
  %0 = dist.all_reduce sum(%x) over @mesh ["dp", "tp"] : tensor<8xf32, #PP> -> tensor<8xf32, #R>
  %1 = dist.convert %0 : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  return %1 : tensor<4xf32, #S0>
}

// The axis that was first is the major one.
// CHECK-LABEL: func.func @scatters(
// CHECK-NEXT: %[[S:.*]] = dist.reduce_scatter sum(%{{.*}}) dim 0 over @mesh ["tp", "dp"] : tensor<8xf32, #P_dp_P_tp> -> tensor<2xf32, #S0o1_dp_S0o0_tp>
// CHECK-NEXT: return %[[S]]
func.func @scatters(%x: tensor<8xf32, #PP>) -> tensor<2xf32, #SS> {
  %0 = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<8xf32, #PP> -> tensor<4xf32, #PS>
  %1 = dist.reduce_scatter sum(%0) dim 0 over @mesh ["dp"] : tensor<4xf32, #PS> -> tensor<2xf32, #SS>
  return %1 : tensor<2xf32, #SS>
}

// Parts of V are of different sizes; those of another dimension, or of a value with other uses, stay as they are.
// CHECK-LABEL: func.func @scatters_apart(
// CHECK-COUNT-6: dist.reduce_scatter
func.func @scatters_apart(%x: tensor<9x8xf32, #VP>, %y: tensor<8x8xf32, #PP>) -> (tensor<3x8xf32, #VV>, tensor<4x4xf32, #dist.on<@mesh, dp = S(1), tp = S(0)>>, tensor<4x8xf32, #PS>, tensor<2x8xf32, #SS>) {
  %0 = dist.reduce_scatter sum(%x) dim 0 over @mesh ["tp"] : tensor<9x8xf32, #VP> -> tensor<5x8xf32, #VV>
  %1 = dist.reduce_scatter sum(%0) dim 0 over @mesh ["dp"] : tensor<5x8xf32, #VV> -> tensor<3x8xf32, #VV>
  %2 = dist.reduce_scatter sum(%y) dim 0 over @mesh ["tp"] : tensor<8x8xf32, #PP> -> tensor<4x8xf32, #PS>
  %3 = dist.reduce_scatter sum(%2) dim 1 over @mesh ["dp"] : tensor<4x8xf32, #PS> -> tensor<4x4xf32, #dist.on<@mesh, dp = S(1), tp = S(0)>>
  %4 = dist.reduce_scatter sum(%y) dim 0 over @mesh ["tp"] : tensor<8x8xf32, #PP> -> tensor<4x8xf32, #PS>
  %5 = dist.reduce_scatter sum(%4) dim 0 over @mesh ["dp"] : tensor<4x8xf32, #PS> -> tensor<2x8xf32, #SS>
  return %1, %3, %4, %5 : tensor<3x8xf32, #VV>, tensor<4x4xf32, #dist.on<@mesh, dp = S(1), tp = S(0)>>, tensor<4x8xf32, #PS>, tensor<2x8xf32, #SS>
}

// The whole is used too; and a future is left to those that overlap.
// CHECK-LABEL: func.func @slice_besides_whole(
// CHECK: dist.all_reduce
// CHECK: dist.convert
// CHECK: dist.all_reduce
// CHECK: dist.wait
// CHECK: dist.convert
func.func @slice_besides_whole(%x: tensor<8xf32, #P>) -> (tensor<8xf32, #R>, tensor<4xf32, #S0>, tensor<4xf32, #S0>) {
  %0 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  %1 = dist.convert %0 : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  %2 = dist.all_reduce sum(%x) over @mesh ["tp"] : tensor<8xf32, #P> -> !dist.future<tensor<8xf32, #R>>
  %3 = dist.wait %2 : tensor<8xf32, #R>
  %4 = dist.convert %3 : tensor<8xf32, #R> -> tensor<4xf32, #S0>
  return %0, %1, %4 : tensor<8xf32, #R>, tensor<4xf32, #S0>, tensor<4xf32, #S0>
}

// CHECK-LABEL: func.func @padding(
// CHECK-SAME: %[[S:.*]]: tensor<4xf32, #R_dp_S0_tp>, %[[R:.*]]: tensor<8xf32, #R_dp_R_tp>
// CHECK-NEXT: %[[G:.*]] = dist.all_gather(%[[S]]) dim 0 over @mesh ["tp"] : tensor<4xf32, #R_dp_S0_tp> -> tensor<8xf32, #R_dp_R_tp>
// CHECK-NEXT: return %[[S]], %[[G]], %[[R]]
func.func @padding(%s: tensor<4xf32, #S0>, %r: tensor<8xf32, #R>) -> (tensor<4xf32, #S0>, tensor<8xf32, #R>, tensor<8xf32, #R>) {
  %0 = dist.convert %s : tensor<4xf32, #S0> -> tensor<8xf32, #P>
  %1 = dist.reduce_scatter sum(%0) dim 0 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<4xf32, #S0>
  %2 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  %3 = dist.convert %r : tensor<8xf32, #R> -> tensor<8xf32, #P>
  %4 = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #R>
  return %1, %2, %4 : tensor<4xf32, #S0>, tensor<8xf32, #R>, tensor<8xf32, #R>
}
