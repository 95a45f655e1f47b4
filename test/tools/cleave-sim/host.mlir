// Copies to and from the host: a stream of their own, whose ops follow each other.
//
// RUN: split-file %s %t
// RUN: cleave-sim %t/p.mlir --cluster=%t/cluster.json | FileCheck %s
// A convolution takes 2.314 ms with its launch, a copy of 256 bytes 4 ms: half of 128,000 bytes a second. The sum of
// 768 bytes waits for what comes back at 10.314, and takes 0.778 ms.
// CHECK: makespan 11.092
// CHECK: waits for copies 51.3 % of 72.1 %
// CHECK: host memory of place 0: 0.000 GiB
// RUN: cleave-sim %t/p.mlir --cluster=%t/cluster.json --json | FileCheck %s --check-prefix=JSON
// JSON-DAG: "copied_bytes": 512
// JSON-DAG: "copy_seconds": 0.008
// JSON-DAG: "exposed_copies": 0.00568{{[56]}}
// JSON-DAG: "host": 256
// JSON-DAG: "op": "dist.offload"
// Lowered: the copy back waits for the one to the host alone, which waits for its operand.
// RUN: cleave-opt %t/p.mlir --lower-to-exec -o %t/lowered.mlir
// RUN: cleave-sim %t/lowered.mlir --cluster=%t/cluster.json | FileCheck %s
// Both stay within the bounds of a host that has as much, and are refused by one that has less.
// RUN: sed 's/"devices_per_node": 8,/"devices_per_node": 8, "host_memory_bytes": 2048,/' %t/cluster.json > %t/enough/cluster.json
// RUN: sed 's/"devices_per_node": 8,/"devices_per_node": 8, "host_memory_bytes": 2040,/' %t/cluster.json > %t/less/cluster.json
// RUN: cp %t/device.json %t/link.json %t/enough
// RUN: cp %t/device.json %t/link.json %t/less
// RUN: cleave-sim %t/p.mlir --cluster=%t/enough/cluster.json | FileCheck %s
// RUN: not cleave-sim %t/p.mlir --cluster=%t/less/cluster.json 2>&1 | FileCheck %s --check-prefix=LESS
// LESS: error: nodes: the program copies more to host memory than a node has for each of its devices: expected at most 0.00 GiB, found 0.00 GiB
// RUN: sed 's/"host_bandwidth": 128000,//' %t/device.json > %t/none/device.json
// RUN: cp %t/cluster.json %t/link.json %t/none
// RUN: not cleave-sim %t/p.mlir --cluster=%t/none/cluster.json 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}none/device.json: facts: expected "host_bandwidth", bytes per second and direction, since the program copies to host memory, found none
// RUN: sed 's/"host_bandwidth": 128000/"host_bandwidth": "fast"/' %t/device.json > %t/none/device.json
// RUN: not cleave-sim %t/p.mlir --cluster=%t/none/cluster.json 2>&1 | FileCheck %s --check-prefix=TEXT
// TEXT: error: {{.*}}none/device.json: facts: expected "host_bandwidth" to be a number, found a string

//--- enough/note.txt
//--- less/note.txt
//--- none/note.txt
//--- device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e6, "flops_16bit": 1e6, "flops_8bit": 0, "flops_4bit": 0, "host_bandwidth": 128000, "flops_32bit": 1e6},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 1e-5, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0, "host_efficiency": 0.5}}
//--- link.json
{"link": "wire", "facts": {"bandwidth": 42666.666666666664, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 1, "all_to_all_efficiency": 1}}
//--- cluster.json
{"cluster": "nodes", "of": "chip", "types": [], "devices_per_node": 8, "levels": [{"link": "wire", "size": 0}]}
//--- p.mlir
func.func @forward_0(
    %x: tensor<1x2x4x4xf32> {train.role = #train.role<input "x">}, %f: tensor<4x2x3x3xf32> {train.role = #train.role<parameter "f">})
    -> (tensor<1x4x4x4xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  %0 = aten.convolution(%x, %f, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32>
  %h = dist.offload %0 : tensor<1x4x4x4xf32>
  %b = dist.reload %h : tensor<1x4x4x4xf32>
  %1 = aten.convolution(%x, %f, none, stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = false, output_padding = [0, 0], groups = 1) : (tensor<1x2x4x4xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x4x4xf32>
  %2 = aten.add(%1, %b) : (tensor<1x4x4x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  return %2 : tensor<1x4x4x4xf32>
}
pipeline.schedule @step "serve" ranks 1 stages 1 microbatches 1 topology loop forward_only transfers implied { rank 0: F0.0 }
