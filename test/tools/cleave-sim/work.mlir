// What ops count as: with a floating-point operation and a byte a microsecond, the longer of the two.
//
// RUN: split-file %s %t
// RUN: cleave-sim %t/p.mlir --cluster=%t/cluster.json | FileCheck %s
// A convolution 2304 operations (18 for each of 64 results and 2), its backward twice that; attention
// 2048 (4 for each of 32 elements of the query and 16 keys); 4 rows of 32 bytes looked up in a table: 288
// bytes; views nothing. 2.304 + 4.608 + 2.048 + 0.288 ms, and 0.01 ms for each kernel, of which the
// backward of the convolution has two.
// CHECK: makespan 9.298
// A collective that is started runs beside the ops up to its wait: 3 ms of it under 2.304 of work.
// RUN: cleave-sim %t/overlap.mlir --cluster=%t/cluster.json | FileCheck %s --check-prefix=OVERLAP
// OVERLAP: makespan 3.000
// Rows that ranks exchange leave the node as in any exchange between all: of 512 bytes those for two of four ranks.
// RUN: cleave-sim %t/rows.mlir --cluster=%t/nodes.json | FileCheck %s --check-prefix=ROWS
// ROWS: makespan 6.000
// Attention on a device with processors: heads of 8 leave the forward (1 + 1) / (1 + 128 / 8) of its rate, 2048 operations in
// 17.408 ms, and the backward (1 + 0.25) / (1 + 32 / 8), 5120 in 20.48 ms; four kernels.
// RUN: sed 's/"processors": 0/"processors": 1/' %t/device.json > %t/cores/device.json
// RUN: cp %t/link.json %t/cluster.json %t/cores
// RUN: cleave-sim %t/cores/attention.mlir --cluster=%t/cores/cluster.json | FileCheck %s --check-prefix=HEADS
// HEADS: makespan 37.928

//--- cores/attention.mlir
func.func @forward_0(
    %q: tensor<1x1x4x8xf32> {train.role = #train.role<input "q">}, %k: tensor<1x1x16x8xf32> {train.role = #train.role<input "k">})
    -> (tensor<1x1x4x8xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  %0:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (tensor<1x1x4x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  %1:3 = aten._scaled_dot_product_flash_attention_for_cpu_backward(%0#0, %q, %k, %k, %0#0, %0#1, dropout_p = 0.0, is_causal = false) : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>)
  return %1#0 : tensor<1x1x4x8xf32>
}
pipeline.schedule @step "serve" ranks 1 stages 1 microbatches 1 topology loop forward_only transfers implied { rank 0: F0.0 }
//--- device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e6, "flops_16bit": 1e6, "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": 1e6},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 1e-5, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0}}
//--- link.json
{"link": "wire", "facts": {"bandwidth": 42666.666666666664, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 1, "all_to_all_efficiency": 1}}
//--- cluster.json
{"cluster": "nodes", "of": "chip", "types": [], "devices_per_node": 8, "levels": [{"link": "wire", "size": 0}]}
//--- fast.json
{"link": "fast", "facts": {"bandwidth": 1e12, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 1, "all_to_all_efficiency": 1}}
//--- nodes.json
{"cluster": "nodes", "of": "chip", "types": [], "devices_per_node": 2, "levels": [{"link": "fast", "size": 2}, {"link": "wire", "size": 0}]}
//--- p.mlir
func.func @forward_0(
    %x: tensor<1x2x4x4xf32> {train.role = #train.role<input "x">}, %f: tensor<4x2x3x3xf32> {train.role = #train.role<parameter "f">},
    %g: tensor<1x4x4x4xf32> {train.role = #train.role<input "g">}, %q: tensor<1x1x4x8xf32> {train.role = #train.role<input "q">},
    %k: tensor<1x1x16x8xf32> {train.role = #train.role<input "k">}, %w: tensor<1000x8xf32> {train.role = #train.role<parameter "w">},
    %i: tensor<4xi64> {train.role = #train.role<input "i">})
    -> (tensor<8x4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  %0 = aten.convolution(%x, %f, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32>
  %1, %2, %3 = aten.convolution_backward(%g, %x, %f, bias_sizes = [4], stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1, output_mask = [true, true, false]) : (tensor<1x4x4x4xf32>, tensor<1x2x4x4xf32>, tensor<4x2x3x3xf32>) -> (tensor<1x2x4x4xf32>, tensor<4x2x3x3xf32>, none)
  %4:2 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (tensor<1x1x4x8xf32>, tensor<1x1x16x8xf32>, tensor<1x1x16x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  %5 = aten.embedding(%w, %i) : (tensor<1000x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %6 = aten.t(%5) : (tensor<4x8xf32>) -> tensor<8x4xf32>
  return %6 : tensor<8x4xf32>
}
pipeline.schedule @step "serve" ranks 1 stages 1 microbatches 1 topology loop forward_only transfers implied { rank 0: F0.0 }
//--- overlap.mlir
dist.mesh @mesh ["dp" = 2]
func.func @forward_0(
    %x: tensor<1x2x4x4xf32> {train.role = #train.role<input "x">}, %f: tensor<4x2x3x3xf32> {train.role = #train.role<parameter "f">},
    %g: tensor<32xf32> {train.role = #train.role<input "g">})
    -> (tensor<1x4x4x4xf32> {train.role = #train.role<output "0">}, tensor<32xf32> {train.role = #train.role<output "1">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  %1 = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<32xf32> -> !dist.future<tensor<32xf32>>
  %0 = aten.convolution(%x, %f, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32>
  %2 = dist.wait %1 : tensor<32xf32>
  return %0, %2 : tensor<1x4x4x4xf32>, tensor<32xf32>
}
pipeline.schedule @step "serve" ranks 1 stages 1 microbatches 1 topology loop forward_only transfers implied { rank 0: F0.0 }
//--- rows.mlir
dist.mesh @mesh ["ep" = 4]
func.func @forward_0(%x: tensor<16x8xf32> {train.role = #train.role<input "x">}, %n: tensor<4xi64> {train.role = #train.role<input "n">})
    -> (tensor<20x8xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  %0 = dist.ragged_all_to_all(%x, %n, %n) over @mesh ["ep"] : (tensor<16x8xf32>, tensor<4xi64>, tensor<4xi64>) -> tensor<20x8xf32>
  return %0 : tensor<20x8xf32>
}
pipeline.schedule @step "serve" ranks 1 stages 1 microbatches 1 topology loop forward_only transfers implied { rank 0: F0.0 }
