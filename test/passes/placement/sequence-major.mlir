// RUN: cleave-opt %s --split-input-file --sequence-major | FileCheck %s
// RUN: cleave-opt %s --split-input-file --sequence-major="batch-shards=2" | FileCheck %s --check-prefix=SHARDS
// RUN: not cleave-opt %s --split-input-file --sequence-major="batch-shards=0" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %S/Inputs/sequence-major-annotated.mlir --sequence-major 2>&1 | FileCheck %s --check-prefix=PLACED

// PLACED: error: expects a program without annotations
// NONE: error: expects a positive number of 'batch-shards', found 0

// The example of the pass' description.
// CHECK-LABEL: func @linear
// CHECK: %[[T:.*]] = aten.transpose(%{{.*}}, dim0 = 0, dim1 = 1) : (tensor<2x4x3xf32>) -> tensor<4x2x3xf32>
// CHECK: %[[C:.*]] = aten.clone(%[[T]], memory_format = "contiguous_format")
// CHECK: %[[ROWS:.*]] = aten.view(%[[C]], size = [8, 3])
// CHECK: %[[Y:.*]] = aten.mm(%[[ROWS]], %{{.*}})
// CHECK: %[[S:.*]] = aten.view(%[[Y]], size = [4, 2, 5])
// CHECK: %[[U:.*]] = aten.transpose(%[[S]], dim0 = 0, dim1 = 1)
// CHECK: aten.clone(%[[U]], memory_format = "contiguous_format") : (tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
func.func @linear(%x: tensor<2x4x3xf32>, %w: tensor<3x5xf32>) -> tensor<2x4x5xf32> {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %1 = aten.mm(%0, %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %2 = aten.view(%1, size = [2, 4, 5]) : (tensor<8x5xf32>) -> tensor<2x4x5xf32>
  return %2 : tensor<2x4x5xf32>
}

// Rows are summed over for the gradient of the weight, so both operands change; a mean of losses
// takes logits and targets in one order.
// CHECK-LABEL: func @contracted_and_averaged
// CHECK-COUNT-3: aten.transpose
// CHECK: aten.t(
// CHECK-NOT: aten.transpose
// CHECK: return
func.func @contracted_and_averaged(%x: tensor<2x4x3xf32>, %g: tensor<2x4x5xf32>, %t: tensor<2x4xi64>)
    -> (tensor<5x3xf32>, tensor<f32>) {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %1 = aten.view(%g, size = [8, 5]) : (tensor<2x4x5xf32>) -> tensor<8x5xf32>
  %2 = aten.view(%t, size = [8]) : (tensor<2x4xi64>) -> tensor<8xi64>
  %3 = aten.t(%1) : (tensor<8x5xf32>) -> tensor<5x8xf32>
  %4 = aten.mm(%3, %0) : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  %5:2 = aten.nll_loss_forward(%1, %2, none, reduction = 1, ignore_index = -100)
      : (tensor<8x5xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return %4, %5#0 : tensor<5x3xf32>, tensor<f32>
}

// -----

// Running sums know an order, and so does who takes the rows as they are.
// CHECK-LABEL: func @ordered
// CHECK-NOT: aten.transpose
// CHECK: return
func.func @ordered(%x: tensor<2x4x3xf32>, %y: tensor<2x4x3xf32>)
    -> (tensor<8x3xf32>, tensor<8x3xf32>) {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %1 = aten.cumsum(%0, dim = 0) : (tensor<8x3xf32>) -> tensor<8x3xf32>
  %2 = aten.view(%y, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  return %1, %2 : tensor<8x3xf32>, tensor<8x3xf32>
}

// Rows that meet an operand of another origin stay; so do those split otherwise than merged.
// CHECK-LABEL: func @other_rows
// CHECK-NOT: aten.transpose
// CHECK: return
func.func @other_rows(%x: tensor<2x4x3xf32>, %b: tensor<8x3xf32>, %y: tensor<2x4x3xf32>)
    -> (tensor<2x4x3xf32>, tensor<4x2x3xf32>) {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %1 = aten.add(%0, %b) : (tensor<8x3xf32>, tensor<8x3xf32>) -> tensor<8x3xf32>
  %2 = aten.view(%1, size = [2, 4, 3]) : (tensor<8x3xf32>) -> tensor<2x4x3xf32>
  %3 = aten.view(%y, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %4 = aten.view(%3, size = [4, 2, 3]) : (tensor<8x3xf32>) -> tensor<4x2x3xf32>
  return %2, %4 : tensor<2x4x3xf32>, tensor<4x2x3xf32>
}

// -----

// Shards of the batch stay outermost.
// SHARDS-LABEL: func @linear_of_shards
// SHARDS: %[[X:.*]] = aten.view(%{{.*}}, size = [2, 3, 4, 3]) : (tensor<6x4x3xf32>) -> tensor<2x3x4x3xf32>
// SHARDS: %[[T:.*]] = aten.transpose(%[[X]], dim0 = 1, dim1 = 2) : (tensor<2x3x4x3xf32>) -> tensor<2x4x3x3xf32>
// SHARDS: %[[C:.*]] = aten.clone(%[[T]], memory_format = "contiguous_format")
// SHARDS: %[[ROWS:.*]] = aten.view(%[[C]], size = [24, 3])
// SHARDS: %[[Y:.*]] = aten.mm(%[[ROWS]], %{{.*}})
// SHARDS: %[[S:.*]] = aten.view(%[[Y]], size = [2, 4, 3, 5])
// SHARDS: %[[U:.*]] = aten.transpose(%[[S]], dim0 = 1, dim1 = 2) : (tensor<2x4x3x5xf32>) -> tensor<2x3x4x5xf32>
// SHARDS: %[[D:.*]] = aten.clone(%[[U]], memory_format = "contiguous_format")
// SHARDS: aten.view(%[[D]], size = [6, 4, 5]) : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
func.func @linear_of_shards(%x: tensor<6x4x3xf32>, %w: tensor<3x5xf32>) -> tensor<6x4x5xf32> {
  %0 = aten.view(%x, size = [24, 3]) : (tensor<6x4x3xf32>) -> tensor<24x3xf32>
  %1 = aten.mm(%0, %w) : (tensor<24x3xf32>, tensor<3x5xf32>) -> tensor<24x5xf32>
  %2 = aten.view(%1, size = [6, 4, 5]) : (tensor<24x5xf32>) -> tensor<6x4x5xf32>
  return %2 : tensor<6x4x5xf32>
}

// One example a shard needs no other order, and three do not divide.
// SHARDS-LABEL: func @other_batches
// SHARDS-NOT: aten.transpose
// SHARDS: return
func.func @other_batches(%x: tensor<2x4x3xf32>, %y: tensor<3x4x3xf32>, %w: tensor<3x5xf32>)
    -> (tensor<2x4x5xf32>, tensor<3x4x5xf32>) {
  %0 = aten.view(%x, size = [8, 3]) : (tensor<2x4x3xf32>) -> tensor<8x3xf32>
  %1 = aten.mm(%0, %w) : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %2 = aten.view(%1, size = [2, 4, 5]) : (tensor<8x5xf32>) -> tensor<2x4x5xf32>
  %3 = aten.view(%y, size = [12, 3]) : (tensor<3x4x3xf32>) -> tensor<12x3xf32>
  %4 = aten.mm(%3, %w) : (tensor<12x3xf32>, tensor<3x5xf32>) -> tensor<12x5xf32>
  %5 = aten.view(%4, size = [3, 4, 5]) : (tensor<12x5xf32>) -> tensor<3x4x5xf32>
  return %2, %5 : tensor<2x4x5xf32>, tensor<3x4x5xf32>
}
