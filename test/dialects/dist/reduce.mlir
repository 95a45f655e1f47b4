// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#P = #dist.on<@mesh, tp = P>
#V = #dist.on<@mesh, tp = V>
#Pproduct = #dist.on<@mesh, tp = P(product)>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.reduce sum(%{{.*}}) root 0 over @mesh ["dp"] : tensor<8xf32>{{$}}
  %0 = dist.reduce sum(%a) root 0 over @mesh ["dp"] : tensor<8xf32>
  // CHECK: dist.reduce sum(%{{.*}}) root 5 over @mesh ["cp", "tp"] : tensor<8xf32>{{$}}
  %1 = dist.reduce sum(%a) root 5 over @mesh ["cp", "tp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @transitions
func.func @transitions(%a: tensor<8xf32, #V>, %b: tensor<8xf32, #P>, %c: tensor<8xf32, #Pproduct>, %d: tensor<4xi1, #V>) {
  // CHECK: dist.reduce max(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #V_tp>{{$}}
  %0 = dist.reduce max(%a) root 1 over @mesh ["tp"] : tensor<8xf32, #V>
  // CHECK: dist.reduce sum(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #P_tp> -> tensor<8xf32, #V_tp>{{$}}
  %1 = dist.reduce sum(%b) root 1 over @mesh ["tp"] : tensor<8xf32, #P> -> tensor<8xf32, #V>
  // CHECK: dist.reduce product(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #Pproduct_tp> -> tensor<8xf32, #V_tp>{{$}}
  %2 = dist.reduce product(%c) root 1 over @mesh ["tp"] : tensor<8xf32, #Pproduct> -> tensor<8xf32, #V>
  // CHECK: dist.reduce bor(%{{.*}}) root 1 over @mesh ["tp"] : tensor<4xi1, #V_tp>{{$}}
  %3 = dist.reduce bor(%d) root 1 over @mesh ["tp"] : tensor<4xi1, #V>
  // CHECK: dist.reduce sum(%{{.*}}) root 1 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> !dist.future<tensor<8xf32, #V_tp>>{{$}}
  %4 = dist.reduce sum(%a) root 1 over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<tensor<8xf32, #V>>
  return
}
