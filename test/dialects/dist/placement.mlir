// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --mlir-print-local-scope | FileCheck %s --check-prefix=LONG

// Placements are named once, by what they say; entries are sorted by axis, so that any order
// parses to the same attribute.
// CHECK: #Pavg_dp_R_tp = #dist.on<@mesh, dp = P(avg), tp = R>
// CHECK: #Pmax_dp_I_tp = #dist.on<@mesh, dp = P(max), tp = I>
// CHECK: #R_dp_P_tp = #dist.on<@mesh, dp = R, tp = P>
// CHECK: #R_dp_V_tp = #dist.on<@mesh, dp = R, tp = V>
// CHECK: #S0_dp_R_tp = #dist.on<@mesh, dp = S(0), tp = R>
// CHECK: #S0o1_dp_S0o0_tp = #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>
// CHECK: #S1_dp_S0_tp = #dist.on<@mesh, dp = S(1), tp = S(0)>
// CHECK: #V_my_axis = #dist.on<@mesh, "my axis" = V>

dist.mesh @mesh ["dp" = 2, "tp" = 2, "my axis" = 1]

// CHECK-LABEL: func.func @entries
// CHECK-SAME: tensor<4x8xf32, #S0_dp_R_tp>
// CHECK-SAME: tensor<4x8xf32, #S0_dp_R_tp>
// CHECK-SAME: tensor<4x8xf32, #R_dp_P_tp>
// CHECK-SAME: tensor<4x8xf32, #R_dp_P_tp>
// CHECK-SAME: tensor<4x8xf32, #Pavg_dp_R_tp>
// CHECK-SAME: tensor<4x8xf32, #Pmax_dp_I_tp>
// CHECK-SAME: tensor<i64, #R_dp_V_tp>
// CHECK-SAME: tensor<4x8xf32, #S1_dp_S0_tp>
// CHECK-SAME: tensor<4x8xf32, #S0o1_dp_S0o0_tp>
// CHECK-SAME: tensor<4x8xi1, #V_my_axis>
// CHECK-SAME: tensor<4xf32, #dist.on<@mesh>>
// LONG: func.func @entries(%{{.*}}: tensor<4x8xf32, #dist.on<@mesh, dp = S(0), tp = R>>
func.func @entries(%a: tensor<4x8xf32, #dist.on<@mesh, dp = S(0), tp = R>>,
                   %b: tensor<4x8xf32, #dist.on<@mesh, tp = R, dp = S(0, 0)>>,
                   %c: tensor<4x8xf32, #dist.on<@mesh, dp = R, tp = P>>,
                   %d: tensor<4x8xf32, #dist.on<@mesh, dp = R, tp = P(sum)>>,
                   %e: tensor<4x8xf32, #dist.on<@mesh, dp = P(avg), tp = R>>,
                   %f: tensor<4x8xf32, #dist.on<@mesh, dp = P(max), tp = I>>,
                   %g: tensor<i64, #dist.on<@mesh, dp = R, tp = V>>,
                   %h: tensor<4x8xf32, #dist.on<@mesh, dp = S(1), tp = S(0)>>,
                   %i: tensor<4x8xf32, #dist.on<@mesh, dp = S(0, 1), tp = S(0, 0)>>,
                   %j: tensor<4x8xi1, #dist.on<@mesh, "my axis" = V>>,
                   %k: tensor<4xf32, #dist.on<@mesh>>) {
  return
}

// Compute ops keep what is written on their types.
// CHECK-LABEL: func.func @compute
// CHECK: aten.mm(%{{.*}}, %{{.*}}) : (tensor<4x8xf32, #S0_dp_R_tp>, tensor<8x2xf32, #R_dp_R_tp>) -> tensor<4x2xf32, #S0_dp_R_tp>
// CHECK: aten.add(%{{.*}}, %{{.*}}) : (tensor<4x2xf32, #S0_dp_R_tp>, tensor<2xf32, #R_dp_R_tp>) -> tensor<4x2xf32, #S0_dp_R_tp>
// CHECK: aten.cat([%{{.*}}, %{{.*}}], dim = 1) : (tensor<4x2xf32, #S0_dp_R_tp>, tensor<4x2xf32, #S0_dp_R_tp>) -> tensor<4x4xf32, #S0_dp_R_tp>
// CHECK: aten.native_layer_norm
// CHECK: train.accumulate %{{.*}} into %{{.*}} : tensor<4x4xf32, #S0_dp_R_tp>
// CHECK: aten.call "aten::relu6"(self = %{{.*}}) : (tensor<4x4xf32, #S0_dp_R_tp>) -> tensor<4x4xf32, #S0_dp_R_tp>
func.func @compute(%x: tensor<4x8xf32, #dist.on<@mesh, dp = S(0), tp = R>>,
                   %w: tensor<8x2xf32, #dist.on<@mesh, dp = R, tp = R>>,
                   %b: tensor<2xf32, #dist.on<@mesh, dp = R, tp = R>>,
                   %s: tensor<4xf32, #dist.on<@mesh, dp = R, tp = R>>) {
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32, #dist.on<@mesh, dp = S(0), tp = R>>, tensor<8x2xf32, #dist.on<@mesh, dp = R, tp = R>>) -> tensor<4x2xf32, #dist.on<@mesh, dp = S(0), tp = R>>
  %1 = aten.add(%0, %b) : (tensor<4x2xf32, #dist.on<@mesh, dp = S(0), tp = R>>, tensor<2xf32, #dist.on<@mesh, dp = R, tp = R>>) -> tensor<4x2xf32, #dist.on<@mesh, dp = S(0), tp = R>>
  %2 = aten.cat([%1, %1], dim = 1) : (tensor<4x2xf32, #dist.on<@mesh, dp = S(0), tp = R>>, tensor<4x2xf32, #dist.on<@mesh, dp = S(0), tp = R>>) -> tensor<4x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>
  %3, %4, %5 = aten.native_layer_norm(%2, normalized_shape = [4], %s, %s, eps = 1.0e-05) : (tensor<4x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>, tensor<4xf32, #dist.on<@mesh, dp = R, tp = R>>, tensor<4xf32, #dist.on<@mesh, dp = R, tp = R>>) -> (tensor<4x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>, tensor<4x1xf32, #dist.on<@mesh, dp = S(0), tp = R>>, tensor<4x1xf32, #dist.on<@mesh, dp = S(0), tp = R>>)
  %6 = train.accumulate %3 into %2 : tensor<4x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>
  %7 = aten.call "aten::relu6"(self = %6) : (tensor<4x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>) -> tensor<4x4xf32, #dist.on<@mesh, dp = S(0), tp = R>>
  return
}
