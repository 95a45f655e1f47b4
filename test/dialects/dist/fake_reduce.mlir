// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#P = #dist.on<@mesh, tp = P>
#I = #dist.on<@mesh, tp = I>
#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.fake_reduce(%{{.*}}) over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.fake_reduce(%a) over @mesh ["dp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<8xf32, #V>, %b: tensor<8xf32, #P>) {
  // CHECK: dist.fake_reduce(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #V_tp> -> tensor<8xf32, #I_tp>{{$}}
  %0 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xf32, #V> -> tensor<8xf32, #I>
  // CHECK: dist.fake_reduce(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<8xf32, #I_tp>{{$}}
  %1 = dist.fake_reduce(%b) over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #I>
  // CHECK: dist.fake_reduce(%{{.*}}) over @mesh ["tp"] : tensor<8xf32, #V_tp> -> !dist.future<tensor<8xf32, #I_tp>>{{$}}
  %2 = dist.fake_reduce(%a) over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #I>>
  return
}
