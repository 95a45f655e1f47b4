// Seconds of a described cluster: what is worth dividing depends on its links.
// RUN: split-file %s %t
// RUN: cleave-opt %t/p.mlir --propagate-placements="cluster=%t/fast.json" | FileCheck %s --check-prefix=FAST
// RUN: cleave-opt %t/p.mlir --propagate-placements="cluster=%t/slow.json" | FileCheck %s --check-prefix=SLOW
// RUN: cleave-opt %t/p.mlir --propagate-placements="cluster=%t/slow.json explain-json=%t/why.json" -o /dev/null
// RUN: FileCheck %s --check-prefix=JSON < %t/why.json
// RUN: not cleave-opt %t/p.mlir --propagate-placements="cluster=%t/narrow.json" 2>&1 | FileCheck %s --check-prefix=NARROW
// RUN: not cleave-opt %t/p.mlir --propagate-placements="cluster=/nonexistent/c.json" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %t/p.mlir --propagate-placements="cluster=%t/fast.json latency=1" 2>&1 | FileCheck %s --check-prefix=BOTH

// Over the fast link each rank multiplies its rows, and the product is gathered; over the slow one
// the rows are, which are less, and every rank computes the whole product.
// FAST: aten.mm{{.*}}dist.results = [#S0_x]
// SLOW: aten.mm{{.*}}dist.results = [#R_x]
// JSON: "seconds":0.00204{{.*}}"bandwidth":1000000,
// NARROW: p.mlir:4:{{.*}}: error: 'aten.mm' op multiplies matrices of 32 bits, but device narrow of cluster narrow-nodes has no fact "flops_32bit"
// NONE: error: {{.*}}/nonexistent/c.json
// BOTH: error: expects either 'cluster' or 'bandwidth', 'latency' and 'work', found both

//--- p.mlir
dist.mesh @mesh ["x" = 2]
func.func @f(%x: tensor<64x16xf32> {dist.placement = #dist.on<@mesh, x = S(0)>}, %w: tensor<16x256xf32>)
    -> (tensor<64x256xf32> {dist.placement = #dist.on<@mesh, x = R>}) {
  %0 = aten.mm(%x, %w) : (tensor<64x16xf32>, tensor<16x256xf32>) -> tensor<64x256xf32>
  return %0 : tensor<64x256xf32>
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
//--- string.json
{"link": "string", "relative": "wire", "facts": {"bandwidth": 1e6, "shared": 0}, "constants": {}}
//--- fast.json
{"cluster": "fast-nodes", "of": "chip", "types": [], "devices_per_node": 8, "levels": [{"link": "wire", "size": 0}]}
//--- slow.json
{"cluster": "slow-nodes", "of": "chip", "types": [], "devices_per_node": 8, "levels": [{"link": "string", "size": 0}]}
//--- narrow.json
{"cluster": "narrow-nodes", "of": "narrow", "types": [], "devices_per_node": 8, "levels": [{"link": "wire", "size": 0}]}
