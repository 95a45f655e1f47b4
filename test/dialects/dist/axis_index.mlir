// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>
#V_V = #dist.on<@mesh, cp = V, tp = V>
#R_V = #dist.on<@mesh, cp = R, tp = V>
#I_V = #dist.on<@mesh, cp = I, tp = V>

// CHECK-LABEL: func.func @axis_index
func.func @axis_index() {
  // CHECK: dist.axis_index over @mesh ["dp"] : tensor<i64>{{$}}
  %0 = dist.axis_index over @mesh ["dp"] : tensor<i64>
  // CHECK: dist.axis_index over @mesh ["tp"] : tensor<i64, #V_tp>{{$}}
  %1 = dist.axis_index over @mesh ["tp"] : tensor<i64, #V>
  // CHECK: dist.axis_index over @mesh ["cp", "tp"] : tensor<i64, #V_cp_V_tp>{{$}}
  %2 = dist.axis_index over @mesh ["cp", "tp"] : tensor<i64, #V_V>
  // CHECK: dist.axis_index over @mesh ["tp"] : tensor<i64, #R_cp_V_tp>{{$}}
  %3 = dist.axis_index over @mesh ["tp"] : tensor<i64, #R_V>
  // CHECK: dist.axis_index over @mesh ["tp"] : tensor<i64, #I_cp_V_tp>{{$}}
  %4 = dist.axis_index over @mesh ["tp"] : tensor<i64, #I_V>
  return
}
