// RUN: cleave-opt %s --split-input-file --propagate-placements --partition --check-spmd-types | FileCheck %s

// Batch and time are sharded by different axes. Where each rank has one example, the merged rows keep both: a part of
// them is a shard of the time in a shard of the batch.
// CHECK-DAG: #[[$ROWS:.*]] = #dist.on<@mesh, cp = S(0, 1), dp = S(0, 0)>
// CHECK-LABEL: func @one_example
// CHECK-NOT: dist.all_gather
// CHECK: aten.view(%{{.*}}, size = [2, 3]) : (tensor<1x2x3xf32, #{{.*}}>) -> tensor<2x3xf32, #[[$ROWS]]>
// CHECK: aten.mm({{.*}}) : (tensor<2x3xf32, #[[$ROWS]]>, tensor<3x5xf32, #{{.*}}>) -> tensor<2x5xf32, #[[$ROWS]]>
// CHECK: aten.view(%{{.*}}, size = [1, 2, 5])
// CHECK-NOT: dist.all_gather
// CHECK: return
dist.mesh @mesh ["dp" = 2, "cp" = 2]

func.func @one_example(%x: tensor<2x4x3xf32> {dist.placement = #dist.on<@mesh, dp = S(0), cp = S(1)>},
                       %w: tensor<3x5xf32> {dist.placement = #dist.on<@mesh, dp = R, cp = R>}) -> tensor<2x4x5xf32> {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %1 = aten.mm(%0, %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %2 = aten.view(%1, size = [2, 4, 5]) : (tensor<8x5xf32>) -> tensor<2x4x5xf32>
  return %2 : tensor<2x4x5xf32>
}

// -----

// Of two examples a rank has two pieces of the rows: one of the axes is gathered.
// CHECK-LABEL: func @two_examples
// CHECK: dist.all_gather
// CHECK: aten.mm
// CHECK: return
dist.mesh @mesh ["dp" = 2, "cp" = 2]

func.func @two_examples(%x: tensor<4x4x3xf32> {dist.placement = #dist.on<@mesh, dp = S(0), cp = S(1)>},
                        %w: tensor<3x5xf32> {dist.placement = #dist.on<@mesh, dp = R, cp = R>}) -> tensor<4x4x5xf32> {
  %0 = aten.view(%x, size = [16, 3]) : (tensor<4x4x3xf32>) -> tensor<16x3xf32>
  %1 = aten.mm(%0, %w) : (tensor<16x3xf32>, tensor<3x5xf32>) -> tensor<16x5xf32>
  %2 = aten.view(%1, size = [4, 4, 5]) : (tensor<16x5xf32>) -> tensor<4x4x5xf32>
  return %2 : tensor<4x4x5xf32>
}
