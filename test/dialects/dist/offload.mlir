// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --cse --canonicalize | FileCheck %s --check-prefix=CLEAN

dist.mesh @mesh ["tp" = 2]
#S = #dist.on<@mesh, tp = S(0)>

// CHECK-LABEL: func.func @offload(
// CHECK-SAME: -> (!dist.host<tensor<4x8xf32>>, !dist.host<tensor<i1>>, !dist.host<tensor<2xcomplex<f32>>>)
func.func @offload(%x: tensor<4x8xf32>, %b: tensor<i1>, %c: tensor<2xcomplex<f32>>)
    -> (!dist.host<tensor<4x8xf32>>, !dist.host<tensor<i1>>, !dist.host<tensor<2xcomplex<f32>>>) {
  // CHECK: %{{.*}} = dist.offload %{{.*}} : tensor<4x8xf32>{{$}}
  %0 = dist.offload %x : tensor<4x8xf32>
  // CHECK: dist.offload %{{.*}} : tensor<i1>{{$}}
  %1 = dist.offload %b : tensor<i1>
  // CHECK: dist.offload %{{.*}} : tensor<2xcomplex<f32>>{{$}}
  %2 = dist.offload %c : tensor<2xcomplex<f32>>
  return %0, %1, %2
      : !dist.host<tensor<4x8xf32>>, !dist.host<tensor<i1>>, !dist.host<tensor<2xcomplex<f32>>>
}

// CHECK-LABEL: func.func @placed(
// CHECK: dist.offload %{{.*}} {note} : tensor<4xf32, #S0_tp>{{$}}
func.func @placed(%x: tensor<4xf32, #S>) -> !dist.host<tensor<4xf32, #S>> {
  %0 = dist.offload %x {note} : tensor<4xf32, #S>
  return %0 : !dist.host<tensor<4xf32, #S>>
}

// Equal copies are one, one that is not read is none, and a value is not taken back from the host: it
// was sent there so that the device need not hold it.
// CLEAN-LABEL: func.func @there_and_back(
// CLEAN: %[[H:.*]] = dist.offload
// CLEAN-NEXT: %[[X:.*]] = dist.reload %[[H]]
// CLEAN-NEXT: return %[[X]], %[[H]], %[[H]]
func.func @there_and_back(%x: tensor<8xf32>)
    -> (tensor<8xf32>, !dist.host<tensor<8xf32>>, !dist.host<tensor<8xf32>>) {
  %0 = dist.offload %x : tensor<8xf32>
  %1 = dist.offload %x : tensor<8xf32>
  %2 = dist.reload %0 : tensor<8xf32>
  %3 = dist.offload %2 : tensor<8xf32>
  return %2, %0, %1 : tensor<8xf32>, !dist.host<tensor<8xf32>>, !dist.host<tensor<8xf32>>
}
