// All axes at once, by cost alone: nothing need be annotated, and what is stays.
// RUN: cleave-opt %s --split-input-file --propagate-placements="solve bandwidth=x=300e9" 2>/dev/null | FileCheck %s
// RUN: cleave-opt %s --split-input-file --propagate-placements="solve bandwidth=x=300e9" 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// The same seed gives the same placements.
// RUN: cleave-opt %s --split-input-file --propagate-placements="solve seed=7 moves=4000" -o %t.first 2>/dev/null
// RUN: cleave-opt %s --split-input-file --propagate-placements="solve seed=7 moves=4000" -o %t.second 2>/dev/null
// RUN: cmp %t.first %t.second
// What was decided is a complete annotation: solved again, it stays.
// RUN: cleave-opt %s --split-input-file --propagate-placements="solve" -o %t.once 2>/dev/null
// RUN: cleave-opt %t.once --split-input-file --propagate-placements="solve seed=3" -o %t.twice 2>/dev/null
// RUN: cmp %t.once %t.twice
// RUN: cleave-opt %t.once --split-input-file --partition -o /dev/null

// Rows are divided over both axes: nothing is sent, and each rank does a quarter of the work.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: (%{{.*}}: tensor<64x16xf32> {dist.placement = #S0o0_x_S0o1_y}
// CHECK-SAME: -> (tensor<64x16xf32> {dist.placement = #S0o0_x_S0o1_y})
// REMARK: remark: a step costs [[COST:[0-9.]+ us]] as placed; no placement of the program costs less than [[COST]] (gap 0.00 %)
dist.mesh @mesh ["x" = 2, "y" = 2]
func.func @rows(%x: tensor<64x16xf32>, %w: tensor<16x16xf32>) -> tensor<64x16xf32> {
  %0 = aten.mm(%x, %w) : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  %1 = aten.relu(%0) : (tensor<64x16xf32>) -> tensor<64x16xf32>
  %2 = aten.mm(%1, %w) : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  return %2 : tensor<64x16xf32>
}

// -----

// Rows that no rank may divide leave the columns of one product and the sums of the other.
// CHECK-LABEL: func.func @columns
// CHECK-SAME: (%{{.*}}: tensor<3x64xf32> {dist.placement = #R_x}, %{{.*}}: tensor<64x64xf32> {dist.placement = #S1_x}, %{{.*}}: tensor<64x64xf32> {dist.placement = #S0_x})
// CHECK: aten.mm{{.*}}dist.results = [#S1_x]
// CHECK: aten.mm{{.*}}dist.results = [#P_x]
// REMARK: remark: a step costs
dist.mesh @mesh ["x" = 2]
func.func @columns(%x: tensor<3x64xf32> {dist.placement = #dist.on<@mesh, x = R>}, %w: tensor<64x64xf32>, %v: tensor<64x64xf32>)
    -> (tensor<3x64xf32> {dist.placement = #dist.on<@mesh, x = R>}) {
  %0 = aten.mm(%x, %w) : (tensor<3x64xf32>, tensor<64x64xf32>) -> tensor<3x64xf32>
  %1 = aten.relu(%0) : (tensor<3x64xf32>) -> tensor<3x64xf32>
  %2 = aten.mm(%1, %v) : (tensor<3x64xf32>, tensor<64x64xf32>) -> tensor<3x64xf32>
  return %2 : tensor<3x64xf32>
}

// -----

// An annotation of one axis, of an operand, and of an order.
// CHECK-LABEL: func.func @annotated
// CHECK-SAME: (%{{.*}}: tensor<64x16xf32> {dist.placement = #S0o1_x_S0o0_y}, %{{.*}}: tensor<16x16xf32> {dist.placement = #dist.on<@mesh, x = S(1), y = {{[^>]*}}>}
// CHECK: aten.mm{{.*}}dist.operands = [{{[^,]*}}, #R_x_R_y]
// REMARK: remark: a step costs
dist.mesh @mesh ["x" = 2, "y" = 2]
func.func @annotated(%x: tensor<64x16xf32> {dist.placement = #dist.on<@mesh, x = S(0, 1), y = S(0, 0)>},
                     %w: tensor<16x16xf32> {dist.placement = #dist.on<@mesh, x = S(1)>}) -> tensor<64x16xf32> {
  %0 = aten.mm(%x, %w) {dist.operands = [unit, #dist.on<@mesh, x = R, y = R>], dist.results = [unit]}
      : (tensor<64x16xf32>, tensor<16x16xf32>) -> tensor<64x16xf32>
  return %0 : tensor<64x16xf32>
}

// -----

// A sum that is returned twice is reduced once, and costs what it costs once.
// CHECK-LABEL: func.func @shared
// REMARK: remark: a step costs [[SUM:[0-9.]+ us]] as placed; no placement of the program costs less than [[SUM]] (gap 0.00 %)
dist.mesh @mesh ["x" = 2]
func.func @shared(%x: tensor<8x64xf32> {dist.placement = #dist.on<@mesh, x = S(1)>}, %w: tensor<64x8xf32> {dist.placement = #dist.on<@mesh, x = S(0)>})
    -> (tensor<8x8xf32> {dist.placement = #dist.on<@mesh, x = R>}, tensor<8x8xf32> {dist.placement = #dist.on<@mesh, x = R>}) {
  %0 = aten.mm(%x, %w) {dist.operands = [#dist.on<@mesh, x = S(1)>, #dist.on<@mesh, x = S(0)>], dist.results = [#dist.on<@mesh, x = P>]}
      : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  return %0, %0 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// CHECK-LABEL: func.func @once
// REMARK: remark: a step costs [[SUM]] as placed
dist.mesh @mesh ["x" = 2]
func.func @once(%x: tensor<8x64xf32> {dist.placement = #dist.on<@mesh, x = S(1)>}, %w: tensor<64x8xf32> {dist.placement = #dist.on<@mesh, x = S(0)>})
    -> (tensor<8x8xf32> {dist.placement = #dist.on<@mesh, x = R>}) {
  %0 = aten.mm(%x, %w) {dist.operands = [#dist.on<@mesh, x = S(1)>, #dist.on<@mesh, x = S(0)>], dist.results = [#dist.on<@mesh, x = P>]}
      : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
