// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

dist.mesh @mesh ["dp" = ?, "tp" = 2, "cp" = 3, "one" = 1]


// CHECK-LABEL: func.func @barrier
func.func @barrier() {
  // CHECK: dist.barrier over @mesh ["tp"]{{$}}
  dist.barrier over @mesh ["tp"]
  // CHECK: dist.barrier over @mesh ["cp", "tp"]{{$}}
  dist.barrier over @mesh ["cp", "tp"]
  // CHECK: %{{.*}} = dist.barrier over @mesh ["tp"] -> !dist.future<none>{{$}}
  %all = dist.barrier over @mesh ["tp"] -> !dist.future<none>
  // CHECK: %{{.*}} = dist.wait %{{.*}} : none{{$}}
  %done = dist.wait %all : none
  return
}
