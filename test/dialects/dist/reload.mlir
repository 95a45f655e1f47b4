// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["tp" = 2]
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: func.func @reload(
func.func @reload(%h: !dist.host<tensor<4x8xbf16>>, %s: !dist.host<tensor<4xf32, #S>>)
    -> (tensor<4x8xbf16>, tensor<4xf32, #S>) {
  // CHECK: %{{.*}} = dist.reload %{{.*}} : tensor<4x8xbf16>{{$}}
  %0 = dist.reload %h : tensor<4x8xbf16>
  // CHECK: dist.reload %{{.*}} : tensor<4xf32, #S0_tp>{{$}}
  %1 = dist.reload %s : tensor<4xf32, #S>
  return %0, %1 : tensor<4x8xbf16>, tensor<4xf32, #S>
}
