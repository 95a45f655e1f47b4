// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = 2, "tp" = ?]

// CHECK-LABEL: func.func @all_reduce
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[N:.*]]: tensor<i64>)
func.func @all_reduce(%x: tensor<8xf32>, %n: tensor<i64>) -> (tensor<8xf32>, tensor<i64>) {
  // CHECK: dist.all_reduce sum(%[[X]]) over @mesh ["dp"] : tensor<8xf32>
  %0 = dist.all_reduce sum(%x) over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.all_reduce sum(%[[N]]) over @mesh ["tp", "dp"] {tag} : tensor<i64>
  %1 = dist.all_reduce sum(%n) over @mesh ["tp", "dp"] {tag} : tensor<i64>
  return %0, %1 : tensor<8xf32>, tensor<i64>
}
