// What `solve` cannot do, and where it was said.
// RUN: not cleave-opt %s --propagate-placements="seed=2" 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: not cleave-opt %s --propagate-placements="solve explain=true" 2>&1 | FileCheck %s --check-prefix=EXPLAIN
// RUN: not cleave-opt %s --propagate-placements="solve uneven=true" 2>&1 | FileCheck %s --check-prefix=UNEVEN
// RUN: not cleave-opt %s --propagate-placements="solve cluster=/nonexistent/c.json" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not cleave-opt %s --propagate-placements="solve work=2 cluster=/nonexistent/c.json" 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not cleave-opt %s --propagate-placements="solve" 2>&1 | FileCheck %s --check-prefix=TOGETHER
// RUN: not cleave-opt %s --propagate-placements="solve memory=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not cleave-opt %s --propagate-placements="solve gap=1" 2>&1 | FileCheck %s --check-prefix=GAP

// GAP: error: expected a number from 0 to below 1 for gap, found 1
// NEGATIVE: error: expected a number of bytes for memory, found -1
// ALONE: error: expects 'memory', 'seed', 'moves' and 'gap' with 'solve' only
// EXPLAIN: error: cannot explain what 'solve' decides: choices are made together, not one after the other; leave out 'explain' and 'explain-json'
// UNEVEN: error: expects shards of the same size with 'solve', found 'uneven'
// CLUSTER: error: {{.*}}/nonexistent/c.json
// BOTH: error: expects either 'cluster' or 'bandwidth', 'latency' and 'work', found both
// TOGETHER: :[[@LINE+4]]:{{[0-9]+}}: error: 'aten.embedding' op cannot run as it is annotated: along each axis of the mesh there is a strategy, but none along all of them together
dist.mesh @mesh ["x" = 2, "y" = 2]
func.func @f(%w: tensor<8x4xf32>, %i: tensor<2xi64>) -> tensor<2x4xf32> {
  // Rows of the table are divided by a form, beside which no sum may be pending.
  %0 = aten.embedding(%w, %i) {dist.operands = [#dist.on<@mesh, x = S(0), y = P>, unit]}
      : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
