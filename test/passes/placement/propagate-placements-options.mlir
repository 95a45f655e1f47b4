// Meshes, links and strictness from options; what is wrong with them.
// RUN: cleave-opt %s --propagate-placements="mesh=dp=2,tp=4 bandwidth=dp=25e9,tp=300e9 latency=1e-6" | FileCheck %s
// RUN: not cleave-opt %s --propagate-placements="mesh=dp" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2,dp=2" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2 bandwidth=fast" 2>&1 | FileCheck %s --check-prefix=BANDWIDTH
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2 latency=tp=1e-6" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2 work=-1" 2>&1 | FileCheck %s --check-prefix=WORK
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2 microbatches=0" 2>&1 | FileCheck %s --check-prefix=MICROBATCHES
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2 strict=true" 2>&1 | FileCheck %s --check-prefix=STRICT
// RUN: not cleave-opt %s --propagate-placements="mesh=dp=2 explain-json=/nonexistent/why.json" 2>&1 | FileCheck %s --check-prefix=FILE

// CHECK: dist.mesh @mesh ["dp" = 2, "tp" = 4]
// CHECK: func.func @f(%{{.*}}: tensor<4xf32> {dist.placement = #R_dp_R_tp}
// SIZE: expected a mesh such as 'dp=2,tp=2', found 'dp': 'dp' is not an axis with a positive size
// TWICE: expected a mesh with different axes, found 'dp=2,dp=2', which names 'dp' twice
// BANDWIDTH: expected bandwidth as a number, or by axis as in 'dp=25e9,tp=300e9', found 'fast'
// AXIS: has no axis "tp", for which the options give bandwidth or latency
// WORK: expected a nonnegative number for work
// MICROBATCHES: expected at least one microbatch, found 0
// STRICT: error: 'aten::roll' runs replicated on all ranks, because {{.*}}; strict propagation rejects this
// FILE: cannot write the explanation to '/nonexistent/why.json': No such file or directory
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = aten.call "aten::roll"(self = %x, shifts = [1], dims = [0]) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
