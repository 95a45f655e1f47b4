// RUN: cleave-opt %s --simplify-communication | FileCheck %s

// Partial values are carried through linear ops where fewer bytes are reduced then.

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#P = #dist.on<@mesh, tp = P>
#S0 = #dist.on<@mesh, tp = S(0)>
#S1 = #dist.on<@mesh, tp = S(1)>

dist.mesh @mesh ["tp" = 2]

// Two row-parallel layers that are added (attention and feed-forward of a parallel block): one reduction. The sum is
// used twice.
// CHECK-LABEL: func.func @parallel_block(
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32, #P_tp>, %[[B:.*]]: tensor<4x8xf32, #P_tp>
// CHECK-NEXT: %[[SUM:.*]] = aten.add(%[[A]], %[[B]]) : (tensor<4x8xf32, #P_tp>, tensor<4x8xf32, #P_tp>) -> tensor<4x8xf32, #P_tp>
// CHECK-NEXT: %[[G:.*]] = dist.all_reduce sum(%[[SUM]]) over @mesh ["tp"] : tensor<4x8xf32, #P_tp> -> tensor<4x8xf32, #I_tp>
// CHECK-NEXT: %[[Y:.*]] = aten.relu(%[[G]])
// CHECK-NEXT: return %[[G]], %[[Y]]
func.func @parallel_block(%a: tensor<4x8xf32, #P>, %b: tensor<4x8xf32, #P>) -> (tensor<4x8xf32, #I>, tensor<4x8xf32, #I>) {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #I>
  %1 = dist.all_reduce sum(%b) over @mesh ["tp"] : tensor<4x8xf32, #P> -> tensor<4x8xf32, #I>
  %2 = aten.add(%0, %1) : (tensor<4x8xf32, #I>, tensor<4x8xf32, #I>) -> tensor<4x8xf32, #I>
  %3 = aten.relu(%2) : (tensor<4x8xf32, #I>) -> tensor<4x8xf32, #I>
  return %2, %3 : tensor<4x8xf32, #I>, tensor<4x8xf32, #I>
}

// Through views, scales and products with what is replicated; a sum over rows leaves an eighth of the bytes.
// CHECK-LABEL: func.func @chain(
// CHECK-NOT: all_reduce
// CHECK: %[[SUM:.*]] = aten.sum_dim_int_list({{.*}} -> tensor<4xf32, #P_tp>
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum(%[[SUM]])
// CHECK-NEXT: return %[[R]]
func.func @chain(%a: tensor<8x4xf32, #P>, %w: tensor<8x4xf32, #R>) -> tensor<4xf32, #R> {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8x4xf32, #P> -> tensor<8x4xf32, #R>
  %1 = aten.mul(%0, %w) : (tensor<8x4xf32, #R>, tensor<8x4xf32, #R>) -> tensor<8x4xf32, #R>
  %2 = aten.mul_scalar(%1, other = 0.5) : (tensor<8x4xf32, #R>) -> tensor<8x4xf32, #R>
  %3 = aten.view(%2, size = [8, 4]) : (tensor<8x4xf32, #R>) -> tensor<8x4xf32, #R>
  %4 = aten.sum_dim_int_list(%3, dim = [0], keepdim = false) : (tensor<8x4xf32, #R>) -> tensor<4xf32, #R>
  return %4 : tensor<4xf32, #R>
}

// The cheapest place is in the middle: what the sum leaves is spread again.
// CHECK-LABEL: func.func @middle(
// CHECK-NEXT: aten.sum_dim_int_list
// CHECK-NEXT: dist.all_reduce
// CHECK-NEXT: aten.expand
func.func @middle(%a: tensor<8x4xf32, #P>) -> tensor<8x4xf32, #R> {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<8x4xf32, #P> -> tensor<8x4xf32, #R>
  %1 = aten.sum_dim_int_list(%0, dim = [0], keepdim = false) : (tensor<8x4xf32, #R>) -> tensor<4xf32, #R>
  %2 = aten.expand(%1, size = [8, 4]) : (tensor<4xf32, #R>) -> tensor<8x4xf32, #R>
  return %2 : tensor<8x4xf32, #R>
}

// Nothing to gain from one reduction that would be as large.
// CHECK-LABEL: func.func @as_large(
// CHECK-NEXT: dist.all_reduce
// CHECK-NEXT: aten.mul_scalar
func.func @as_large(%a: tensor<4xf32, #P>) -> tensor<4xf32, #R> {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %1 = aten.mul_scalar(%0, other = 0.5) : (tensor<4xf32, #R>) -> tensor<4xf32, #R>
  return %1 : tensor<4xf32, #R>
}

// Not through what is not linear in both, nor where one is reduced to R and one to I.
// CHECK-LABEL: func.func @not_linear(
// CHECK-COUNT-3: dist.all_reduce
// CHECK: aten.mul
// CHECK: aten.sub
// CHECK-NOT: dist.all_reduce
// CHECK: return
func.func @not_linear(%a: tensor<4xf32, #P>, %b: tensor<4xf32, #P>, %c: tensor<4xf32, #P>, %d: tensor<4xf32, #R>)
    -> (tensor<4xf32, #R>, tensor<4xf32, #R>) {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %1 = dist.all_reduce sum(%b) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %2 = dist.all_reduce sum(%c) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %3 = aten.mul(%0, %1) : (tensor<4xf32, #R>, tensor<4xf32, #R>) -> tensor<4xf32, #R>
  %4 = aten.sub(%2, %d) : (tensor<4xf32, #R>, tensor<4xf32, #R>) -> tensor<4xf32, #R>
  return %3, %4 : tensor<4xf32, #R>, tensor<4xf32, #R>
}

// An I that carries a gradient may join I, not P: the product stays where it is.
// CHECK-LABEL: func.func @gradient(
// CHECK: dist.all_reduce
// CHECK: dist.all_reduce
// CHECK: aten.mul
// CHECK: aten.mul
// CHECK: aten.add
func.func @gradient(%a: tensor<4xf32, #P>, %b: tensor<4xf32, #P>,
                    %w: tensor<4xf32, #I> {train.role = #train.role<parameter "w">}) -> tensor<4xf32, #I> {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #I>
  %1 = dist.all_reduce sum(%b) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #I>
  %2 = aten.mul(%0, %w) : (tensor<4xf32, #I>, tensor<4xf32, #I>) -> tensor<4xf32, #I>
  %3 = aten.mul(%1, %w) : (tensor<4xf32, #I>, tensor<4xf32, #I>) -> tensor<4xf32, #I>
  %4 = aten.add(%2, %3) : (tensor<4xf32, #I>, tensor<4xf32, #I>) -> tensor<4xf32, #I>
  return %4 : tensor<4xf32, #I>
}

// Sums of four, where one is used elsewhere too: it stays, the others are one.
// CHECK-LABEL: func.func @shared_leaf(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32, #P_tp>, %[[B:.*]]: tensor<4xf32, #P_tp>, %[[C:.*]]: tensor<4xf32, #P_tp>
// CHECK: %[[S:.*]] = dist.all_reduce sum(%[[A]])
// CHECK: %[[BC:.*]] = aten.add(%[[B]], %[[C]])
// CHECK: %[[T:.*]] = dist.all_reduce sum(%[[BC]])
// CHECK: aten.add(%[[T]], %[[S]])
func.func @shared_leaf(%a: tensor<4xf32, #P>, %b: tensor<4xf32, #P>, %c: tensor<4xf32, #P>) -> (tensor<4xf32, #R>, tensor<4xf32, #R>) {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %1 = dist.all_reduce sum(%b) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %2 = dist.all_reduce sum(%c) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %3 = aten.add(%1, %2) : (tensor<4xf32, #R>, tensor<4xf32, #R>) -> tensor<4xf32, #R>
  %4 = aten.add(%3, %0) : (tensor<4xf32, #R>, tensor<4xf32, #R>) -> tensor<4xf32, #R>
  return %4, %0 : tensor<4xf32, #R>, tensor<4xf32, #R>
}

// What ends in a slice becomes a reduce_scatter of the sum.
// CHECK-LABEL: func.func @then_slice(
// CHECK-NEXT: aten.add
// CHECK-NEXT: dist.reduce_scatter
// CHECK-NEXT: return
func.func @then_slice(%a: tensor<4xf32, #P>, %b: tensor<4xf32, #P>) -> tensor<2xf32, #S0> {
  %0 = dist.all_reduce sum(%a) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %1 = dist.all_reduce sum(%b) over @mesh ["tp"] : tensor<4xf32, #P> -> tensor<4xf32, #R>
  %2 = aten.add(%0, %1) : (tensor<4xf32, #R>, tensor<4xf32, #R>) -> tensor<4xf32, #R>
  %3 = dist.convert %2 : tensor<4xf32, #R> -> tensor<2xf32, #S0>
  return %3 : tensor<2xf32, #S0>
}
