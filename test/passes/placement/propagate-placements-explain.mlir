// Why, as remarks and as JSON.
// RUN: cleave-opt %s --propagate-placements="explain=true explain-json=%t.json" --verify-diagnostics -o /dev/null
// RUN: FileCheck %s < %t.json

// CHECK: {"functions":[{"forms":[],"name":"rows","redistributions":[
// CHECK-SAME: {"bytes":128,"from":{"tp":"P"},"seconds":5.1{{[0-9]*}}e-09,"steps":[{"axes":["tp"],"collective":"all_reduce","communicates":true,"reduction":"sum"}],"to":{"tp":"R"},"uses":[{"location":"{{.*}}propagate-placements-explain.mlir:{{[0-9]+}}","op":"aten.relu","op_id":1,"operand":0}],"value":2}
// CHECK-SAME: "tensors":[{"argument":0,"bytes":128,"id":0,"local_shape":[4,4],
// CHECK-SAME: "reasons":[{"axis":"tp","costs":[{"chosen":false,"gradient":"R","placement":"R","seconds":{{[0-9.e-]+}}},{"chosen":true,"gradient":"S(1)","placement":"S(1)",
// CHECK-SAME: "from":1,"kind":"follows"
// CHECK-SAME: "root":1
// CHECK-SAME: "mesh":{"axes":[{"bandwidth":25000000000,"latency":0,"name":"tp","size":2}],"name":"mesh"},"program":"","version":1}
dist.mesh @mesh ["tp" = 2]
func.func @rows(
    // expected-remark @+1 {{argument 0 of 'rows' is placed tp = S(1): follows S(0) of argument 1 of 'rows' through 'aten.mm'}}
    %x: tensor<4x8xf32>,
    // expected-remark @+1 {{argument 1 of 'rows' is placed tp = S(0): is annotated}}
    %w: tensor<8x8xf32> {dist.placement = #dist.on<@mesh, tp = S(0)>}) -> tensor<4x8xf32> {
  // expected-remark @+1 {{the result of 'aten.mm' is placed tp = P: is the cheapest of the op's 2 strategies}}
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // expected-remark @+2 {{the result of 'aten.relu' is placed tp = R: no annotation reaches the op}}
  // expected-remark @+1 {{operand 0 of 'aten.relu' is redistributed from #dist.on<@mesh, tp = P> to #dist.on<@mesh, tp = R> by all_reduce over tp, of which a rank sends 128 bytes}}
  %1 = aten.relu(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
