// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]

#V = #dist.on<@mesh, tp = V>

// CHECK-LABEL: func.func @untyped
func.func @untyped(%a: tensor<8xf32>) {
  // CHECK: dist.send(%{{.*}}) from 0 to 1 tag 7 over @mesh ["dp"] : tensor<8xf32>{{$}}
  dist.send(%a) from 0 to 1 tag 7 over @mesh ["dp"] : tensor<8xf32>
  return
}

// CHECK-LABEL: func.func @typed
func.func @typed(%a: tensor<8xf32, #V>) {
  // CHECK: dist.send(%{{.*}}) from 1 to 0 tag 0 over @mesh ["tp"] : tensor<8xf32, #V_tp>{{$}}
  dist.send(%a) from 1 to 0 tag 0 over @mesh ["tp"] : tensor<8xf32, #V>
  return
}

// CHECK-LABEL: func.func @started
func.func @started(%a: tensor<8xf32, #V>) {
  // CHECK: %{{.*}} = dist.send(%{{.*}}) from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V_tp> -> !dist.future<none>{{$}}
  %sent = dist.send(%a) from 0 to 1 tag 7 over @mesh ["tp"] : tensor<8xf32, #V> -> !dist.future<none>
  // CHECK: %{{.*}} = dist.wait %{{.*}} : none{{$}}
  %done = dist.wait %sent : none
  return
}
