// RUN: cleave-opt %s --split-input-file --async-tp="min-mb=0" --check-spmd-types | FileCheck %s
// RUN: cleave-opt %s --split-input-file --async-tp="min-mb=0 chunks=2" --check-spmd-types | FileCheck %s --check-prefix=CHUNKS
// RUN: cleave-opt %s --split-input-file --async-tp="min-mb=0 regather=false" | FileCheck %s --check-prefix=KEEP
// RUN: cleave-opt %s --split-input-file --async-tp | FileCheck %s --check-prefix=SMALL

// The example of the pass' description. A gather below the least size stays, as all here do.
// CHECK-LABEL: func @gathered_product
// CHECK-NOT: all_gather
// CHECK: %[[FUTURE:.*]] = dist.shift(%[[X:.*]]) by 1 wrap over @mesh ["tp"]
// CHECK: %[[MINE:.*]] = aten.mm(%[[X]], %[[W:.*]])
// CHECK: %[[BLOCK:.*]] = dist.wait %[[FUTURE]]
// CHECK: %[[OTHER:.*]] = aten.mm(%[[BLOCK]], %[[W]])
// CHECK: %[[ALL:.*]] = aten.cat([%[[MINE]], %[[OTHER]]], dim = 0)
// CHECK: %[[SPLIT:.*]] = aten.view(%[[ALL]], size = [2, 2, 3])
// CHECK: %[[PLACED:.*]] = aten.index_select(%[[SPLIT]], dim = 0,
// CHECK: aten.view(%[[PLACED]], size = [4, 3])
// SMALL-LABEL: func @gathered_product
// SMALL: all_gather
// SMALL-NEXT: aten.mm
// SMALL-NEXT: return
// KEEP-LABEL: func @gathered_product
// KEEP-NOT: all_gather
dist.mesh @mesh ["tp" = 2]
func.func @gathered_product(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<2x4xf32> -> tensor<4x4xf32>
  %1 = aten.mm(%0, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// -----

#R = #dist.on<@mesh, dp = S(0), tp = R>
#P = #dist.on<@mesh, dp = S(0), tp = P>
#S0 = #dist.on<@mesh, dp = R, tp = S(0)>
#S1 = #dist.on<@mesh, dp = S(0), tp = S(1)>
#C = #dist.on<@mesh, dp = R, tp = S(1)>
dist.mesh @mesh ["dp" = 2, "tp" = 4]

// Two products of one gathered sequence share the ring; what they take is brought before it.
// CHECK-LABEL: func @two_products
// CHECK-COUNT-2: aten.t(
// CHECK-COUNT-3: dist.shift
// CHECK-NOT: dist.shift
// CHECK-NOT: all_gather
// CHECK: return {{.*}} : tensor<16x3xf32, #S0_dp_S1_tp>, tensor<16x5xf32, #S0_dp_S1_tp>
// With two chunks the pieces of a block travel by themselves.
// CHUNKS-LABEL: func @two_products
// CHUNKS-COUNT-6: dist.shift
// CHUNKS-NOT: dist.shift
// CHUNKS: return
func.func @two_products(%x: tensor<2x2x4xf32, #S1>, %w: tensor<3x4xf32, #S0>,
                        %v: tensor<5x4xf32, #S0>)
    -> (tensor<16x3xf32, #S1>, tensor<16x5xf32, #S1>) {
  %0 = dist.all_gather(%x) dim 1 over @mesh ["tp"] : tensor<2x2x4xf32, #S1> -> tensor<2x8x4xf32, #R>
  %1 = aten.view(%0, size = [16, 4]) : (tensor<2x8x4xf32, #R>) -> tensor<16x4xf32, #R>
  %2 = aten.t(%w) : (tensor<3x4xf32, #S0>) -> tensor<4x3xf32, #C>
  %3 = aten.mm(%1, %2) : (tensor<16x4xf32, #R>, tensor<4x3xf32, #C>) -> tensor<16x3xf32, #S1>
  %4 = aten.t(%v) : (tensor<5x4xf32, #S0>) -> tensor<4x5xf32, #C>
  %5 = aten.mm(%1, %4) : (tensor<16x4xf32, #R>, tensor<4x5xf32, #C>) -> tensor<16x5xf32, #S1>
  return %3, %5 : tensor<16x3xf32, #S1>, tensor<16x5xf32, #S1>
}

// The sum of a block goes round the ranks that add to it, and ends where it belongs.
// CHECK-LABEL: func @scattered_product
// CHECK: %[[FIRST:.*]] = aten.view(%{{.*}}, size = [2, 2, 4])
// CHECK: %[[FUTURE:.*]] = dist.shift(%[[FIRST]]) by 1 wrap over @mesh ["tp"]
// CHECK: aten.mm
// CHECK: %[[SECOND:.*]] = aten.view(%{{.*}}, size = [2, 2, 4])
// CHECK: %[[CAME:.*]] = dist.wait %[[FUTURE]]
// CHECK: %[[SUM:.*]] = aten.add(%[[CAME]], %[[SECOND]])
// CHECK: dist.shift(%[[SUM]])
// CHECK-NOT: reduce_scatter
// CHECK: return
func.func @scattered_product(%x: tensor<16x3xf32, #S1>, %w: tensor<3x4xf32, #S0>)
    -> tensor<2x2x4xf32, #S1> {
  %0 = aten.mm(%x, %w) : (tensor<16x3xf32, #S1>, tensor<3x4xf32, #S0>) -> tensor<16x4xf32, #P>
  %1 = aten.view(%0, size = [2, 8, 4]) : (tensor<16x4xf32, #P>) -> tensor<2x8x4xf32, #P>
  %2 = dist.reduce_scatter sum(%1) dim 1 over @mesh ["tp"] : tensor<2x8x4xf32, #P> -> tensor<2x2x4xf32, #S1>
  return %2 : tensor<2x2x4xf32, #S1>
}

// The addend of a product is a term on one rank only. It joins the sum, not the blocks.
// CHECK-LABEL: func @scattered_with_addend
// CHECK-SAME: %[[B:[a-z0-9]*]]: tensor<4xf32, #R_dp_R_tp>
// CHECK-COUNT-3: dist.shift
// CHECK-NOT: aten.addmm
// CHECK: %[[SUM:.*]] = dist.reinterpret %{{.*}} -> tensor<2x2x4xf32, #S0_dp_S1_tp>
// CHECK: %[[RESULT:.*]] = aten.add(%[[SUM]], %[[B]])
// CHECK: return %[[RESULT]]
func.func @scattered_with_addend(%x: tensor<16x3xf32, #S1>, %w: tensor<3x4xf32, #S0>,
                                 %b: tensor<4xf32, #dist.on<@mesh, dp = R, tp = R>>)
    -> tensor<2x2x4xf32, #S1> {
  %t = dist.convert %b : tensor<4xf32, #dist.on<@mesh, dp = R, tp = R>> -> tensor<4xf32, #dist.on<@mesh, dp = R, tp = P>>
  %0 = aten.addmm(%t, %x, %w) : (tensor<4xf32, #dist.on<@mesh, dp = R, tp = P>>, tensor<16x3xf32, #S1>, tensor<3x4xf32, #S0>) -> tensor<16x4xf32, #P>
  %1 = aten.view(%0, size = [2, 8, 4]) : (tensor<16x4xf32, #P>) -> tensor<2x8x4xf32, #P>
  %2 = dist.reduce_scatter sum(%1) dim 1 over @mesh ["tp"] : tensor<2x8x4xf32, #P> -> tensor<2x2x4xf32, #S1>
  return %2 : tensor<2x2x4xf32, #S1>
}

// -----

// What else uses the gathered value gathers it where it needs it, unless told not to.
// CHECK-LABEL: func @other_user
// CHECK: dist.shift
// CHECK: %[[AGAIN:.*]] = dist.all_gather
// CHECK-NEXT: aten.relu(%[[AGAIN]])
// KEEP-LABEL: func @other_user
// KEEP-NOT: dist.shift
// KEEP: return
dist.mesh @mesh ["tp" = 2]
func.func @other_user(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>)
    -> (tensor<4x3xf32>, tensor<4x4xf32>) {
  %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<2x4xf32> -> tensor<4x4xf32>
  %1 = aten.mm(%0, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = aten.relu(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %2 : tensor<4x3xf32>, tensor<4x4xf32>
}

// -----

#R = #dist.on<@mesh, tp = R>
#S0 = #dist.on<@mesh, tp = S(0)>
#C = #dist.on<@mesh, tp = S(1)>
dist.mesh @mesh ["tp" = 2]

// Every rank makes the same product: the blocks of one rank would be called R, which they are not.
// CHECK-LABEL: func @replicated_product
// CHECK-NOT: dist.shift
// CHECK: return
func.func @replicated_product(%x: tensor<2x4xf32, #S0>, %w: tensor<4x3xf32, #R>)
    -> tensor<4x3xf32, #R> {
  %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<2x4xf32, #S0> -> tensor<4x4xf32, #R>
  %1 = aten.mm(%0, %w) : (tensor<4x4xf32, #R>, tensor<4x3xf32, #R>) -> tensor<4x3xf32, #R>
  return %1 : tensor<4x3xf32, #R>
}

// The gathered value is contracted.
// CHECK-LABEL: func @contracted
// CHECK-NOT: dist.shift
// CHECK: return
func.func @contracted(%x: tensor<2x4xf32, #S0>, %g: tensor<3x4xf32, #S0>)
    -> tensor<3x4xf32, #S0> {
  %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<2x4xf32, #S0> -> tensor<4x4xf32, #R>
  %1 = aten.mm(%g, %0) : (tensor<3x4xf32, #S0>, tensor<4x4xf32, #R>) -> tensor<3x4xf32, #S0>
  return %1 : tensor<3x4xf32, #S0>
}

// What is added has rows of its own.
// CHECK-LABEL: func @added_rows
// CHECK-NOT: dist.shift
// CHECK: return
func.func @added_rows(%x: tensor<2x4xf32, #S0>, %b: tensor<4x3xf32, #C>, %w: tensor<4x3xf32, #C>)
    -> tensor<4x3xf32, #C> {
  %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<2x4xf32, #S0> -> tensor<4x4xf32, #R>
  %1 = aten.addmm(%b, %0, %w) : (tensor<4x3xf32, #C>, tensor<4x4xf32, #R>, tensor<4x3xf32, #C>) -> tensor<4x3xf32, #C>
  return %1 : tensor<4x3xf32, #C>
}

// Ranks hold blocks of three and two rows.
// CHECK-LABEL: func @uneven
// CHECK-NOT: dist.shift
// CHECK: return
func.func @uneven(%x: tensor<3x4xf32, #S0>, %w: tensor<4x3xf32, #dist.on<@mesh, tp = S(1)>>)
    -> tensor<5x3xf32, #dist.on<@mesh, tp = S(1)>> {
  %0 = dist.all_gather(%x) dim 0 over @mesh ["tp"] : tensor<3x4xf32, #S0> -> tensor<5x4xf32, #R>
  %1 = aten.mm(%0, %w) : (tensor<5x4xf32, #R>, tensor<4x3xf32, #dist.on<@mesh, tp = S(1)>>) -> tensor<5x3xf32, #dist.on<@mesh, tp = S(1)>>
  return %1 : tensor<5x3xf32, #dist.on<@mesh, tp = S(1)>>
}

// -----

// How many ranks lie along the axis is known only when the program starts.
// CHECK-LABEL: func @open_axis
// CHECK-NOT: dist.shift
// CHECK: return
dist.mesh @mesh ["tp" = ?]
func.func @open_axis(%x: tensor<4x4xf32>, %w: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = aten.mm(%x, %w) : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = dist.all_reduce sum(%0) over @mesh ["tp"] : tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}
