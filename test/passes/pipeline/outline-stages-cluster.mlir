// Stages of even seconds on a described cluster, not of even bytes.
// RUN: split-file %s %t
// RUN: cleave-opt %t/p.mlir --outline-stages="count=2 balance=cost slack=0 explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOMINAL
// RUN: cleave-opt %t/p.mlir --outline-stages="count=2 slack=0 cluster=%t/nodes.json explain=true" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not cleave-opt %t/p.mlir --outline-stages="at=a cluster=%t/nodes.json" 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not cleave-opt %t/p.mlir --outline-stages="count=2 cluster=/nonexistent/c.json" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %t/p.mlir --outline-stages="count=2 cluster=%t/narrow.json" 2>&1 | FileCheck %s --check-prefix=NARROW

// A device that multiplies slowly has its time in the product, however few its bytes are.
// NOMINAL: stage 0: 2 ops forward
// NOMINAL: stage 1: 3 ops forward
// CLUSTER: stage 0: 1 ops forward
// CLUSTER: stage 1: 4 ops forward
// ALONE: error: expects the option 'count' or policy=budget with 'cluster'
// NONE: error: {{.*}}/nonexistent/c.json
// NARROW: p.mlir:3:{{.*}}: error: 'aten.mm' op multiplies matrices of 32 bits, but device narrow of cluster narrow-nodes has no fact "flops_32bit"

//--- p.mlir
func.func @microbatch(%x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>}, %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<8x8xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = aten.relu(%0) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = aten.relu(%1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = aten.relu(%2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = aten.relu(%3) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %4 : tensor<8x8xf32>
}

//--- chip.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e12, "flops_16bit": 1e12,
  "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": 1e9},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1,
  "attention_efficiency": 1, "memory_efficiency": 1, "depth_overhead": 0, "kernel_seconds": 0, "host_seconds": 0,
  "step_seconds": 0, "overlap_slowdown": 0}}
//--- narrow-chip.json
{"device": "narrow", "relative": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e12,
  "flops_16bit": 1e12, "flops_8bit": 0, "flops_4bit": 0}, "constants": {}}
//--- wire.json
{"link": "wire", "facts": {"bandwidth": 1e12, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 1, "all_to_all_efficiency": 1}}
//--- nodes.json
{"cluster": "nodes", "of": "chip", "types": [], "devices_per_node": 8, "levels": [{"link": "wire", "size": 0}]}
//--- narrow.json
{"cluster": "narrow-nodes", "of": "narrow", "types": [], "devices_per_node": 8, "levels": [{"link": "wire", "size": 0}]}
