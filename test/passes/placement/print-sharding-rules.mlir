// Rules as remarks and as JSON; the program stays as it is. What rules say is tested in test/dialects/sharding.
// RUN: cleave-opt %s --print-sharding-rules -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: cleave-opt %s | diff - %t.mlir
// RUN: cleave-opt %s --print-sharding-rules=json=%t.json -o %t.mlir 2>%t.err
// RUN: cleave-opt %s | diff - %t.mlir
// RUN: count 0 < %t.err
// RUN: FileCheck %s --check-prefix=JSON < %t.json
// RUN: not cleave-opt %s --print-sharding-rules=json=%t.none/rules.json -o /dev/null 2>&1 | FileCheck %s --check-prefix=ERROR

// REMARK: print-sharding-rules.mlir:[[# @LINE + 4]]:{{.*}} remark: sharding rule: [m, k], [k, n] -> [m, n]; m = 4, k = 8 (sum), n = 16; linear {0} {1}
// JSON: "file":"{{.*}}print-sharding-rules.mlir","line":[[# @LINE + 3]],"op":"aten.mm","rule":
// ERROR: error: cannot write the sharding rules to '{{.*}}rules.json': No such file or directory
func.func @mm(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>) {
  %0 = aten.mm(%a, %b) : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  return
}
