// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#R = #dist.on<@mesh, tp = R>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>
#R_R = #dist.on<@mesh, cp = R, tp = R>
#I_I = #dist.on<@mesh, cp = I, tp = I>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.fake_broadcast(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.fake_broadcast(%a) over @mesh ["dp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<8xf32, #I>, %b: tensor<8xf32, #I_I>) {
  // CHECK: dist.fake_broadcast(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #I_tp> -> tensor<8xf32, #V_tp>{{$}}
  %0 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #V>
  // CHECK: dist.fake_broadcast(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #I_tp> -> tensor<8xf32, #R_tp>{{$}}
  %1 = dist.fake_broadcast(%a) over @mesh ["tp"] : tensor<8xf32, #I> -> tensor<8xf32, #R>
  // CHECK: dist.fake_broadcast(%{{.*}}) over @mesh ["cp", "tp"] : tensor<8xf32, #I_cp_I_tp> -> tensor<8xf32, #R_cp_R_tp>{{$}}
  %2 = dist.fake_broadcast(%b) over @mesh ["cp", "tp"] : tensor<8xf32, #I_I> -> tensor<8xf32, #R_R>
  return
}
