// A program's own schedule and stages: costs on a described cluster, on which each
// product here takes 1 ms, a crossing value 1 ms, and a gradient's sum over 2 ranks 2 ms, at the
// bandwidth of messages.
//
// RUN: split-file %s %t
// RUN: cleave-opt %t/staged.mlir --build-schedule="schedule=1f1b ranks=2 microbatches=2" --insert-p2p --verify-schedule -o %t/p.mlir
// RUN: cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --axis=dp=2 --json | FileCheck %s
// RUN: not cleave-sim %t/order.mlir --costs=1,1,1 --axis=foo=3 2>&1 | FileCheck %s --check-prefix=NOAXIS
// NOAXIS: cleave-sim: error: --axis: expected an axis of the program's mesh (it has none), found 'foo'
// RUN: not cleave-sim %t/order.mlir --costs=1,1,1 --axis=dp=0 2>&1 | FileCheck %s --check-prefix=NORANKS
// NORANKS: cleave-sim: error: --axis: expected NAME=RANKS, found 'dp=0'
// RUN: cleave-opt %t/p.mlir --emit-bytecode -o %t/p.mlirbc
// RUN: cleave-sim %t/p.mlirbc --cluster=%t/machine/cluster.json --axis=dp=2 --json | FileCheck %s
// F0 F0 sends; F1.0 from 2, B1.0 to 5, F1.1 B1.1 to 8; a send, B0.1, and the reduction of step0.
// CHECK: "bubble_rate": {{.*}}
// CHECK: "makespan": 12
// CHECK: "peak_memory": [
// The second stage keeps what it received, 32 bytes; the first the input, which is there anyway.
// CHECK-NEXT: 0,
// CHECK-NEXT: 32
// CHECK: "schedule": "1f1b"

// The step as a whole, and in words.
// RUN: cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --axis=dp=2 | FileCheck %s --check-prefix=STEP
// STEP: step 0.0120 s on 4 devices of nodes, 0.0108 to 0.0132 s by the error of two thirds of the measured runs
// STEP-NEXT: mfu 41.67 %, 0.0 tokens/s, 666.67 examples/s
// STEP-NEXT: busiest rank: kernels 50.0 %, bubbles 25.0 %, other 0.0 %, waits for dp 16.7 %, waits for pipeline 8.3 %
// STEP-NEXT: ops aten.mm
// STEP-NEXT: hangs on chip.flops_32bit -0.654, chip.matrix_efficiency_16bit -0.654, wire.bandwidth -0.327, wire.point_to_point_efficiency -0.327
// STEP-NEXT: memory of place 0: 0.000 of 0.9 GiB: parameters
// RUN: cleave-sim %t/p.mlir --cluster=C1 --devices=%t/machine --axis=dp=2 | FileCheck %s --check-prefix=STEP

// More ranks reduce: 2 (n - 1) / n of the gradient. Halves the flops: bf16 is not f32.
// RUN: cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --axis=dp=4 | FileCheck %s --check-prefix=FOUR
// FOUR: makespan 13.000
// RUN: cleave-sim %t/p.mlir --cluster=%t/types/cluster.json --axis=dp=2 | FileCheck %s --check-prefix=TYPES
// TYPES: makespan 20.000
// An axis that the program does not have is not one of its own.
// RUN: not cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --axis=foo=3 2>&1 | FileCheck %s --check-prefix=FOO
// FOO: error: --axis: expected an axis of the program's mesh (dp), found 'foo'
// The page knows the units of what is described, and of a program's memory.
// RUN: cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --axis=dp=2 --html=%t/page.html && FileCheck %s --check-prefix=UNITS < %t/page.html
// UNITS: const page = {"timeUnit":"ms","memoryUnit":"B","runs":[
// The measured, or any other costs in place of the device's.
// RUN: cleave-sim %t/p.mlir --profile=%t/profile.json | FileCheck %s --check-prefix=PROFILE
// PROFILE: makespan 9.000
// PROFILE: peak_memory 0.00 32.00
// RUN: cleave-sim %t/p.mlir --costs=1,1,1 | FileCheck %s --check-prefix=COSTS
// COSTS: makespan 9.000

// Other schedules on its stages; with fewer stages several run as one.
// RUN: cleave-sim %t/staged.mlir --compare=1f1b,gpipe,offline --ranks=1 --microbatches=2 --costs=1,1,1 | FileCheck %s --check-prefix=COMPARE
// COMPARE: offline {{.*}} 12.00
// RUN: not cleave-sim %t/staged.mlir --schedule=1f1b --ranks=3 --microbatches=3 --costs=1,1,1 2>&1 | FileCheck %s --check-prefix=SHARE
// SHARE: error: schedule '1f1b' needs a stage for each of the 3 ranks, found 2

// What cannot be simulated is said.
// RUN: not cleave-sim %t/staged.mlir --cluster=%t/machine/cluster.json --axis=dp=2 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: {{.*}}staged.mlir: expected a pipeline.schedule, found none: run cleave-opt --build-schedule
// RUN: not cleave-sim %t/p.mlir 2>&1 | FileCheck %s --check-prefix=WHAT
// WHAT: error: {{.*}}p.mlir has stages: expected their costs as --cluster=FILE
// RUN: not cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json 2>&1 | FileCheck %s --check-prefix=AXIS
// AXIS: p.mlir:{{[0-9]+}}:{{[0-9]+}}: error: 'dist.all_reduce' op runs along mesh axis 'dp', whose size is not known: expected it by --axis dp=N
// RUN: not cleave-sim %t/p.mlir --cluster=%t/slow/cluster.json --axis=dp=2 2>&1 | FileCheck %s --check-prefix=SLOW
// SLOW: error: {{.*}}device.json: flops_16bit: expected a positive number, found 0
// RUN: not cleave-sim %t/p.mlir --cluster=%t/wide/cluster.json --axis=dp=2 2>&1 | FileCheck %s --check-prefix=WIDE
// WIDE: error: cluster nodes: device chip has no fact "flops_32bit", but the program multiplies matrices of 32 bits
// RUN: not cleave-sim %t/p.mlir --cluster=%t/small/cluster.json --axis=dp=2 2>&1 | FileCheck %s --check-prefix=SMALL
// SMALL: error: nodes: the program needs more memory than a device has: expected at most 0.00 GiB, found 0.00 GiB at place 0 of the pipeline: parameters
// RUN: not cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --axis=dp=x 2>&1 | FileCheck %s --check-prefix=RANKS
// RANKS: error: --axis: expected NAME=RANKS, found 'dp=x'
// RUN: not cleave-sim %t/p.mlir --cluster=%t/machine/cluster.json --costs=1,1,1 --axis=dp=2 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: --costs, --cost-table and --cluster are mutually exclusive
// RUN: not cleave-sim --schedule=1f1b --ranks=2 --microbatches=2 --cluster=%t/machine/cluster.json 2>&1 | FileCheck %s --check-prefix=DEVICE
// DEVICE: error: --cluster expects a program, found none
// RUN: not cleave-sim %t/p.mlir --cluster=Z9 --devices=%t/machine --axis=dp=2 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: --cluster: no cluster of this device is described, found 'Z9': write files of the device and the cluster, {{.*}}/machine/z9.json and {{.*}}/machine/z9-cluster.json
// RUN: not cleave-sim %t/p.mlir --cluster=%t/none.json --axis=dp=2 2>&1 | FileCheck %s --check-prefix=ABSENT
// ABSENT: error: {{.*}}none.json: No such file or directory
// RUN: not cleave-sim %t/p.mlir --cluster=%t/profile.json --axis=dp=2 2>&1 | FileCheck %s --check-prefix=OTHER-FILE
// OTHER-FILE: error: {{.*}}profile.json: expected a JSON object with "cluster", "of" and "levels"
// RUN: not cleave-sim %t/p.mlir --costs=1,1,1 --graphs 2>&1 | FileCheck %s --check-prefix=GRAPHS
// GRAPHS: error: --graphs expects --cluster
// RUN: not cleave-sim %t/staged.mlir --cluster=%t/machine/cluster.json --axis=dp=2 --schedule=1f1b --ranks=1 --microbatches=2 2>&1 | FileCheck %s --check-prefix=FEWER
// FEWER: error: --cluster: expected a schedule of the program's 2 stages, found one of 1; --compare takes such schedules
// RUN: not cleave-sim --schedule=1f1b --ranks=2 --microbatches=2 --symbol=a 2>&1 | FileCheck %s --check-prefix=SYMBOL
// SYMBOL: error: --symbol expects a program, found none
// RUN: not cleave-sim %t/two.mlir 2>&1 | FileCheck %s --check-prefix=TWO
// TWO: error: {{.*}}two.mlir: has 2 schedules: select one with --symbol ('a', 'b', ...)
// RUN: cleave-sim %t/two.mlir --symbol=b | FileCheck %s --check-prefix=B
// B: mine: 1 ranks, 1 stages (loop), 2 microbatches
// RUN: not cleave-sim %t/two.mlir --symbol=c 2>&1 | FileCheck %s --check-prefix=C
// C: error: {{.*}}two.mlir: has no pipeline.schedule named 'c'
// RUN: not cleave-sim %t/two.mlir --symbol=b --ranks=2 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: {{.*}}two.mlir has 1 ranks and 2 microbatches, which --ranks and --microbatches contradict
// RUN: not cleave-sim %t/two.mlir --schedule=1f1b --ranks=1 --microbatches=1 2>&1 | FileCheck %s --check-prefix=STAGES
// STAGES: error: {{.*}}two.mlir: expected a program with stages, found none: run cleave-opt --outline-stages
// RUN: not cleave-sim %t/order.mlir 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: order.mlir:1:103: error: 'pipeline.schedule' op
// RUN: not cleave-sim %t/function.mlir --costs=1,1,1 2>&1 | FileCheck %s --check-prefix=FUNCTION
// FUNCTION: function.mlir:1:1: error: belongs to stage 0, which has no function of phase backward, but schedule 'mine' has its backward
// RUN: not cleave-sim %t/nothing.mlir 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: error: {{.*}}nothing.mlir: {{.*}}
// RUN: not cleave-sim %t/profile.json 2>&1 | FileCheck %s --check-prefix=FORMAT
// FORMAT: profile.json cannot be simulated:

//--- machine/device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e30, "flops_16bit": 128e3, "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": 64e3},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 0, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0}}
//--- machine/link.json
{"link": "wire", "facts": {"bandwidth": 64e3, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 0.5, "all_to_all_efficiency": 1}}
//--- machine/cluster.json
{"cluster": "nodes", "of": "chip", "types": ["C1"], "devices_per_node": 8, "error": 0.1, "levels": [{"link": "wire", "size": 0}]}
//--- types/device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e30, "flops_16bit": 64e3, "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": 32e3},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 0, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0}}
//--- types/link.json
{"link": "wire", "facts": {"bandwidth": 64e3, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 0.5, "all_to_all_efficiency": 1}}
//--- types/cluster.json
{"cluster": "nodes", "of": "chip", "types": ["C1"], "devices_per_node": 8, "error": 0.1, "levels": [{"link": "wire", "size": 0}]}
//--- slow/device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e30, "flops_16bit": 0, "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": 64e3},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 0, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0}}
//--- slow/link.json
{"link": "wire", "facts": {"bandwidth": 64e3, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 0.5, "all_to_all_efficiency": 1}}
//--- slow/cluster.json
{"cluster": "nodes", "of": "chip", "types": ["C1"], "devices_per_node": 8, "error": 0.1, "levels": [{"link": "wire", "size": 0}]}
//--- wide/device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 1e9, "memory_bandwidth": 1e30, "flops_16bit": 64e3, "flops_8bit": 0, "flops_4bit": 0},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 0, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0}}
//--- wide/link.json
{"link": "wire", "facts": {"bandwidth": 64e3, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 0.5, "all_to_all_efficiency": 1}}
//--- wide/cluster.json
{"cluster": "nodes", "of": "chip", "types": ["C1"], "devices_per_node": 8, "error": 0.1, "levels": [{"link": "wire", "size": 0}]}
//--- small/device.json
{"device": "chip", "facts": {"processors": 0, "memory_bytes": 100, "memory_bandwidth": 1e30, "flops_16bit": 64e3, "flops_8bit": 0, "flops_4bit": 0, "flops_32bit": 64e3},
 "constants": {"matrix_efficiency_16bit": 1, "matrix_efficiency_8bit": 1, "matrix_efficiency_4bit": 1, "attention_efficiency": 1, "memory_efficiency": 1,
               "depth_overhead": 0, "kernel_seconds": 0, "host_seconds": 0, "step_seconds": 0, "overlap_slowdown": 0}}
//--- small/link.json
{"link": "wire", "facts": {"bandwidth": 64e3, "shared": 0},
 "constants": {"latency": 0, "efficiency": 1, "point_to_point_efficiency": 0.5, "all_to_all_efficiency": 1}}
//--- small/cluster.json
{"cluster": "nodes", "of": "chip", "types": ["C1"], "devices_per_node": 8, "error": 0.1, "levels": [{"link": "wire", "size": 0}]}
//--- profile.json
{"stages": [{"forward": 1, "input": 1, "weight": 1}, {"forward": 1, "input": 1, "weight": 1}], "measured": {"threads": 1}}
//--- two.mlir
pipeline.schedule @a "yours" ranks 1 stages 1 microbatches 1 topology loop transfers implied { rank 0: F0.0 B0.0 }
pipeline.schedule @b "mine" ranks 1 stages 1 microbatches 2 topology loop transfers implied { rank 0: F0.0 F0.1 B0.0 B0.1 }
//--- order.mlir
pipeline.schedule @a "mine" ranks 1 stages 1 microbatches 1 topology loop transfers implied { rank 0: B0.0 F0.0 }
//--- function.mlir
func.func @forward_0(%x: tensor<2xf32> {train.role = #train.role<input "x" batch 0>}) -> (tensor<2xf32> {train.role = #train.role<output "0" batch 0>}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  return %x : tensor<2xf32>
}
pipeline.schedule @a "mine" ranks 1 stages 1 microbatches 1 topology loop transfers implied { rank 0: F0.0 B0.0 }
//--- nothing.mlir
//--- staged.mlir
dist.mesh @mesh ["dp" = ?]
func.func @forward_0(%w: tensor<4x4xf32> {train.role = #train.role<parameter "a">}, %x: tensor<2x4xf32> {train.role = #train.role<input "x" batch 0>})
    -> (tensor<2x4xf32> {train.role = #train.role<crossing "h">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  %0 = aten.mm(%x, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func @forward_1(%w: tensor<4x4xf32> {train.role = #train.role<parameter "b">}, %h: tensor<2x4xf32> {train.role = #train.role<crossing "h">})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<2x4xf32> {train.role = #train.role<saved "h">}) attributes {train.phase = #train.phase<forward>, train.stage = 1} {
  %0 = aten.mm(%h, %w) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = aten.sum(%0) : (tensor<2x4xf32>) -> tensor<f32>
  return %1, %h : tensor<f32>, tensor<2x4xf32>
}
func.func @backward_1(%s: tensor<f32> {train.role = #train.role<seed>}, %w: tensor<4x4xf32> {train.role = #train.role<parameter "b">}, %h: tensor<2x4xf32> {train.role = #train.role<saved "h">})
    -> (tensor<4x4xf32> {train.role = #train.role<gradient "b">}, tensor<2x4xf32> {train.role = #train.role<crossing_gradient "h">}) attributes {train.phase = #train.phase<backward>, train.stage = 1} {
  %g = aten.expand(%s, size = [2, 4]) : (tensor<f32>) -> tensor<2x4xf32>
  %t = aten.t(%h) : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %0 = aten.mm(%t, %g) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %u = aten.t(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = aten.mm(%g, %u) : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<2x4xf32>
}
func.func @backward_0(%x: tensor<2x4xf32> {train.role = #train.role<input "x" batch 0>}, %g: tensor<2x4xf32> {train.role = #train.role<crossing_gradient "h">})
    -> (tensor<4x4xf32> {train.role = #train.role<gradient "a">}) attributes {train.phase = #train.phase<backward>, train.stage = 0} {
  %t = aten.t(%x) : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %0 = aten.mm(%t, %g) : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
func.func @update_0(%w: tensor<4x4xf32> {train.role = #train.role<parameter "a">}, %g: tensor<4x4xf32> {train.role = #train.role<gradient "a">}, %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4x4xf32> {train.role = #train.role<parameter "a">}) attributes {train.phase = #train.phase<update>, train.stage = 0} {
  %sum = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<4x4xf32>
  %lr = train.learning_rate(%t) {base = 1.0e-01 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %0 = train.sgd(%w, %sum, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false} : tensor<4x4xf32>, tensor<f32>, tensor<f64>
  return %0 : tensor<4x4xf32>
}
func.func @update_1(%w: tensor<4x4xf32> {train.role = #train.role<parameter "b">}, %g: tensor<4x4xf32> {train.role = #train.role<gradient "b">}, %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<4x4xf32> {train.role = #train.role<parameter "b">}) attributes {train.phase = #train.phase<update>, train.stage = 1} {
  %f = dist.all_reduce sum(%g) over @mesh ["dp"] : tensor<4x4xf32> -> !dist.future<tensor<4x4xf32>>
  %lr = train.learning_rate(%t) {base = 1.0e-01 : f64, schedule = #train.schedule<constant>} : (tensor<f32>) -> tensor<f64>
  %sum = dist.wait %f : tensor<4x4xf32>
  %0 = train.sgd(%w, %sum, %t, %lr) {momentum = 0.0 : f64, dampening = 0.0 : f64, weight_decay = 0.0 : f64, nesterov = false} : tensor<4x4xf32>, tensor<f32>, tensor<f64>
  return %0 : tensor<4x4xf32>
}
