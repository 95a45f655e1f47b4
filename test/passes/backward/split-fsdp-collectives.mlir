// RUN: cleave-opt %s --split-fsdp-collectives | FileCheck %s
// RUN: cleave-opt %s --split-fsdp-collectives="explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: cleave-opt %s --split-fsdp-collectives="reduce=false" | FileCheck %s --check-prefix=GATHERS
// RUN: cleave-opt %s --split-fsdp-collectives="unshard=false" | FileCheck %s --check-prefix=REDUCTIONS
// RUN: cleave-opt %s --split-fsdp-collectives --split-backward --verify-split-backward | FileCheck %s --check-prefix=HALVES
// RUN: cleave-opt %s --split-backward --split-fsdp-collectives --verify-split-backward | FileCheck %s --check-prefix=HALVES

// A linear layer under fully sharded data parallelism: the weight is gathered in forward and
// backward, its gradient reduced and scattered; the bias is whole, and its gradient reduced. The
// gather of the activation's mean is none of the pass's business.

// EXPLAIN: unshard: 2 all_gathers of the microbatch, 256 bytes held through the step
// EXPLAIN-NEXT: reduce: 2 reductions of the microbatch, accumulators larger by 128 bytes

// CHECK-LABEL: func.func @unshard(
// CHECK-SAME: %[[W:.*]]: tensor<4x8xf32> {train.role = #train.role<parameter "w">})
// CHECK-SAME: -> (tensor<8x8xf32> {train.role = #train.role<saved "unshard.w">})
// CHECK-SAME: train.phase = #train.phase<unshard>
// CHECK-NEXT: %[[W1:.*]] = dist.all_gather(%[[W]]) dim 0
// CHECK-NEXT: return %[[W1]]

// CHECK-LABEL: func.func @forward(
// CHECK-NOT: parameter "w"
// CHECK-SAME: saved "unshard.w"
// CHECK: aten.t(
// CHECK: dist.all_gather({{.*}} tensor<2xf32> -> tensor<4xf32>
// CHECK-NOT: dist.

// CHECK-LABEL: func.func @backward(
// CHECK-SAME: %[[A:.*]]: tensor<8x8xf32> {train.role = #train.role<accumulator "w">}
// CHECK-SAME: -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">}, tensor<8xf32> {train.role = #train.role<gradient "b">}, tensor<2x8xf32> {train.role = #train.role<gradient "x">})
// CHECK-NOT: dist.
// CHECK: train.accumulate

// CHECK-LABEL: func.func @reduce(
// CHECK-SAME: %[[GW:.*]]: tensor<8x8xf32> {train.role = #train.role<gradient "w">}
// CHECK-SAME: %[[GB:.*]]: tensor<8xf32> {train.role = #train.role<gradient "b">}
// CHECK-SAME: -> (tensor<4x8xf32> {train.role = #train.role<gradient "w">}, tensor<8xf32> {train.role = #train.role<gradient "b">})
// CHECK-SAME: train.phase = #train.phase<reduce>
// CHECK-NEXT: %[[RW:.*]] = dist.reduce_scatter sum(%[[GW]]) dim 0
// CHECK-NEXT: %[[RB:.*]] = dist.all_reduce sum(%[[GB]])
// CHECK-NEXT: return %[[RW]], %[[RB]]

// GATHERS: func.func @unshard(
// GATHERS-NOT: func.func @reduce(
// GATHERS: dist.reduce_scatter
// GATHERS-NOT: func.func @reduce(

// REDUCTIONS-NOT: func.func @unshard(
// REDUCTIONS: func.func @reduce(

// HALVES-LABEL: func.func @unshard(
// HALVES: dist.all_gather
// HALVES-LABEL: func.func @backward_input(
// HALVES-SAME: saved "unshard.w"
// HALVES-NOT: dist.
// HALVES-LABEL: func.func @backward_weight(
// HALVES-SAME: -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">}
// HALVES-NOT: dist.
// HALVES-LABEL: func.func @reduce(
// HALVES: dist.reduce_scatter

dist.mesh @mesh ["fsdp" = 2]

func.func @forward(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">},
                   %b: tensor<8xf32> {train.role = #train.role<parameter "b">},
                   %x: tensor<2x8xf32> {train.role = #train.role<input "x" batch 0 over ["fsdp"]>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4xf32> {train.role = #train.role<output "0">},
        tensor<2x8xf32> {train.role = #train.role<saved "y">})
    attributes {train.phase = #train.phase<forward>} {
  %w1 = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> tensor<8x8xf32>
  %wt = aten.t(%w1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = aten.addmm(%b, %x, %wt) : (tensor<8xf32>, tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %r = aten.relu(%y) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %m = aten.mean_dim(%r, dim = [1]) : (tensor<2x8xf32>) -> tensor<2xf32>
  %all = dist.all_gather(%m) dim 0 over @mesh ["fsdp"] : tensor<2xf32> -> tensor<4xf32>
  %loss = aten.sum(%m) : (tensor<2xf32>) -> tensor<f32>
  return %loss, %all, %y : tensor<f32>, tensor<4xf32>, tensor<2x8xf32>
}

func.func @backward(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">},
                    %x: tensor<2x8xf32> {train.role = #train.role<input "x" batch 0 over ["fsdp"]>},
                    %y: tensor<2x8xf32> {train.role = #train.role<saved "y">},
                    %aw: tensor<4x8xf32> {train.role = #train.role<accumulator "w">},
                    %ab: tensor<8xf32> {train.role = #train.role<accumulator "b">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<4x8xf32> {train.role = #train.role<gradient "w">},
        tensor<8xf32> {train.role = #train.role<gradient "b">},
        tensor<2x8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %e = aten.expand(%seed, size = [2, 8]) : (tensor<f32>) -> tensor<2x8xf32>
  %s = aten.div_scalar(%e, other = 8) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %g = aten.threshold_backward(%s, %y, threshold = 0) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %gt = aten.t(%g) : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %dw = aten.mm(%gt, %x) : (tensor<8x2xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
  %dws = dist.reduce_scatter sum(%dw) dim 0 over @mesh ["fsdp"] : tensor<8x8xf32> -> tensor<4x8xf32>
  %sw = train.accumulate %dws into %aw : tensor<4x8xf32>
  %db = aten.sum_dim_int_list(%g, dim = [0]) : (tensor<2x8xf32>) -> tensor<8xf32>
  %dbs = dist.all_reduce sum(%db) over @mesh ["fsdp"] : tensor<8xf32>
  %sb = train.accumulate %dbs into %ab : tensor<8xf32>
  %w1 = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<4x8xf32> -> tensor<8x8xf32>
  %dx = aten.mm(%g, %w1) : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  return %sw, %sb, %dx : tensor<4x8xf32>, tensor<8xf32>, tensor<2x8xf32>
}

func.func @update(%w: tensor<4x8xf32> {train.role = #train.role<parameter "w">},
                  %b: tensor<8xf32> {train.role = #train.role<parameter "b">},
                  %gw: tensor<4x8xf32> {train.role = #train.role<gradient "w">},
                  %gb: tensor<8xf32> {train.role = #train.role<gradient "b">},
                  %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4x8xf32> {train.role = #train.role<parameter "w">},
        tensor<8xf32> {train.role = #train.role<parameter "b">})
    attributes {train.phase = #train.phase<update>} {
  %lr = train.learning_rate(%t) {base = 1.0e-01 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %w1 = train.sgd(%w, %gw, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<4x8xf32>
  %b1 = train.sgd(%b, %gb, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, nesterov = false, weight_decay = 0.0 : f64} : tensor<8xf32>
  return %w1, %b1 : tensor<4x8xf32>, tensor<8xf32>
}
