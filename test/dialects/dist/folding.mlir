// RUN: cleave-opt %s --canonicalize | FileCheck %s
// RUN: cleave-opt %s --canonicalize --check-spmd-types -o /dev/null

// What is an identity forward and backward folds; its neighbours, which are not, stay.

dist.mesh @mesh ["tp" = 2]

#I = #dist.on<@mesh, tp = I>
#R = #dist.on<@mesh, tp = R>
#P = #dist.on<@mesh, tp = P>
#V = #dist.on<@mesh, tp = V>
#S0 = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: func.func @convert_there_and_back
// CHECK-SAME: (%[[A:.*]]: tensor<8xf32, #I_tp>, %[[B:.*]]: tensor<8xf32, #R_tp>)
// CHECK-NEXT: return %[[A]], %[[B]]
func.func @convert_there_and_back(%a: tensor<8xf32, #I>, %b: tensor<8xf32, #R>) -> (tensor<8xf32, #I>, tensor<8xf32, #R>) {
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %1 = dist.convert %0 : tensor<8xf32, #R> -> tensor<8xf32, #I>
  %2 = dist.convert %b : tensor<8xf32, #R> -> tensor<8xf32, #I>
  %3 = dist.convert %2 : tensor<8xf32, #I> -> tensor<8xf32, #R>
  return %1, %3 : tensor<8xf32, #I>, tensor<8xf32, #R>
}

// Two conversions that lead elsewhere are two ops, of which --simplify-communication makes one.
// CHECK-LABEL: func.func @convert_onwards
// CHECK-COUNT-2: dist.convert
func.func @convert_onwards(%a: tensor<8xf32, #I>) -> tensor<8xf32, #P> {
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %1 = dist.convert %0 : tensor<8xf32, #R> -> tensor<8xf32, #P>
  return %1 : tensor<8xf32, #P>
}

// CHECK-LABEL: func.func @reinterpret_there_and_back
// CHECK-SAME: (%[[A:.*]]: tensor<4xf32, #V_tp>)
// CHECK-NEXT: return %[[A]]
func.func @reinterpret_there_and_back(%a: tensor<4xf32, #V>) -> tensor<4xf32, #V> {
  %0 = dist.reinterpret %a : tensor<4xf32, #V> -> tensor<4xf32, #S0>
  %1 = dist.reinterpret %0 : tensor<4xf32, #S0> -> tensor<4xf32, #V>
  return %1 : tensor<4xf32, #V>
}

// The other kind in between: `R` to `P` keeps the bits and with them changes the meaning.
// CHECK-LABEL: func.func @convert_and_reinterpret
// CHECK: dist.convert
// CHECK: dist.reinterpret
func.func @convert_and_reinterpret(%a: tensor<8xf32, #I>) -> tensor<8xf32, #P> {
  %0 = dist.convert %a : tensor<8xf32, #I> -> tensor<8xf32, #R>
  %1 = dist.reinterpret %0 : tensor<8xf32, #R> -> tensor<8xf32, #P>
  return %1 : tensor<8xf32, #P>
}

// CHECK-LABEL: func.func @gather_of_scatter
// CHECK-SAME: (%[[A:.*]]: tensor<8xf32, #I_tp>)
// CHECK-NEXT: return %[[A]]
func.func @gather_of_scatter(%a: tensor<8xf32, #I>) -> tensor<8xf32, #I> {
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<4xf32, #S0>
  %1 = dist.fake_gather(%0) dim 0 over @mesh ["tp"] : tensor<4xf32, #S0> -> tensor<8xf32, #I>
  return %1 : tensor<8xf32, #I>
}

// Put together along another dimension it is another value.
// CHECK-LABEL: func.func @gather_of_other_scatter
// CHECK: dist.fake_scatter
// CHECK: dist.fake_gather
func.func @gather_of_other_scatter(%a: tensor<8x4xf32, #I>) -> tensor<4x8xf32, #I> {
  %0 = dist.fake_scatter(%a) dim 0 over @mesh ["tp"] : tensor<8x4xf32, #I> -> tensor<4x4xf32, #V>
  %1 = dist.fake_gather(%0) dim 1 over @mesh ["tp"] : tensor<4x4xf32, #V> -> tensor<4x8xf32, #I>
  return %1 : tensor<4x8xf32, #I>
}

// CHECK-LABEL: func.func @shift_by_nothing
// CHECK-SAME: (%[[A:.*]]: tensor<8xf32, #V_tp>)
// CHECK-NEXT: return %[[A]]
func.func @shift_by_nothing(%a: tensor<8xf32, #V>) -> tensor<8xf32, #V> {
  %0 = dist.shift(%a) by 0 over @mesh ["tp"] : tensor<8xf32, #V>
  return %0 : tensor<8xf32, #V>
}

// CHECK-LABEL: func.func @shift
// CHECK-COUNT-2: dist.shift
func.func @shift(%a: tensor<8xf32, #V>) -> tensor<8xf32, #V> {
  %0 = dist.shift(%a) by 1 over @mesh ["tp"] : tensor<8xf32, #V>
  %1 = dist.shift(%0) by 0 over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  %2 = dist.wait %1 : tensor<8xf32, #V>
  return %2 : tensor<8xf32, #V>
}
