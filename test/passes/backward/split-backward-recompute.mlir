// RUN: cleave-opt %s --split-backward --verify-split-backward | FileCheck %s --check-prefix=NONE
// RUN: cleave-opt %s --split-backward="recompute=cheap" --verify-split-backward | FileCheck %s --check-prefix=CHEAP
// RUN: cleave-opt %s --split-backward="explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=TABLE
// RUN: cleave-opt %s --split-backward="explain=true recompute=cheap" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CHEAP-TABLE
// RUN: sed -e 's/4x8x/412316860416x8x/g' -e 's/8x4x/8x412316860416x/g' -e 's/\[4, 8\]/[412316860416, 8]/' %s \
// RUN:   | cleave-opt --split-backward --verify-split-backward | FileCheck %s --check-prefix=LARGE

// dW needs the gradient in f32, of which dI has the bf16 original: holding that is half. Views are
// computed again in any case.

// NONE-LABEL: func.func @backward_input(
// NONE-SAME: tensor<4x8xf32> {train.role = #train.role<saved "to_copy">}
// NONE-LABEL: func.func @backward_weight(
// NONE: aten.t(%{{.*}}) {train.recomputed}
// NONE-NOT: train.recomputed

// CHEAP-LABEL: func.func @backward_input(
// CHEAP-SAME: tensor<4x8xbf16> {train.role = #train.role<saved "threshold_backward">}
// CHEAP-LABEL: func.func @backward_weight(
// CHEAP: %[[G:.*]] = aten._to_copy({{.*}} {train.recomputed}
// CHEAP-NEXT: %[[T:.*]] = aten.t(%[[G]]) {train.recomputed}
// CHEAP-NEXT: aten.mm(%[[T]],

// Tensors of 12 TiB, which no device has but a plan may ask about, are weighed as any other.
// LARGE-LABEL: func.func @backward_input(
// LARGE-SAME: tensor<412316860416x8xf32> {train.role = #train.role<saved "to_copy">}
// LARGE-LABEL: func.func @backward_weight(
// LARGE: aten.t(%{{.*}}) {train.recomputed}
// LARGE-NOT: train.recomputed

// TABLE: backward_weight: 2 ops, 1 of them recomputed
// TABLE: held between the halves, per microbatch: 256 bytes in 2 values
// TABLE-NEXT: saved by the forward: 128 bytes
// TABLE-NEXT: produced by backward_input: 128 bytes

// CHEAP-TABLE: backward_weight: 3 ops, 2 of them recomputed
// CHEAP-TABLE: produced by backward_input: 64 bytes

func.func @forward(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                   %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<4x8xbf16> {train.role = #train.role<saved "y">})
    attributes {train.phase = #train.phase<forward>} {
  %y = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %h = aten._to_copy(%y, dtype = bf16) : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %loss = aten.sum(%y) : (tensor<4x8xf32>) -> tensor<f32>
  return %loss, %h : tensor<f32>, tensor<4x8xbf16>
}
func.func @backward(%w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
                    %x: tensor<4x8xf32> {train.role = #train.role<input "x" batch 0>},
                    %y: tensor<4x8xbf16> {train.role = #train.role<saved "y">},
                    %seed: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<8x8xf32> {train.role = #train.role<gradient "w">},
        tensor<4x8xf32> {train.role = #train.role<gradient "x">})
    attributes {train.phase = #train.phase<backward>} {
  %b = aten._to_copy(%seed, dtype = bf16) : (tensor<f32>) -> tensor<bf16>
  %e = aten.expand(%b, size = [4, 8]) : (tensor<bf16>) -> tensor<4x8xbf16>
  %g = aten.threshold_backward(%e, %y, threshold = 0) : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %g32 = aten._to_copy(%g, dtype = f32) : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %gt = aten.t(%g32) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %dxt = aten.mm(%w, %gt) : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %dx = aten.t(%dxt) : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %dw = aten.mm(%gt, %x) : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %dw, %dx : tensor<8x8xf32>, tensor<4x8xf32>
}
