// A limit of what a rank holds: time is spent for memory, and what cannot fit is refused with what binds.
// RUN: cleave-opt %s --propagate-placements="solve" 2>/dev/null | FileCheck %s --check-prefix=FREE
// RUN: cleave-opt %s --propagate-placements="solve memory=60e3" -o %t.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s --check-prefix=LIMITED < %t.mlir
// RUN: cleave-opt %t.mlir --partition -o /dev/null
// RUN: not cleave-opt %s --propagate-placements="solve memory=20e3" 2>&1 | FileCheck %s --check-prefix=LEAST
// What is enough is, and a byte less is not.
// RUN: cleave-opt %s --propagate-placements="solve memory=41472" -o /dev/null 2>&1 | FileCheck %s --check-prefix=ENOUGH
// RUN: not cleave-opt %s --propagate-placements="solve memory=41471" 2>&1 | FileCheck %s --check-prefix=LESS

// The batch is divided, and each rank has the whole weight: nothing is sent.
// FREE: %{{.*}}: tensor<1024x64xf32> {dist.placement = #R_x}
// An eighth of the 256 KiB of the weight fits beside the rest, and its products are terms of a sum.
// REMARK: remark: a step costs {{.*}} (gap {{.*}} %); a rank holds at most 44.0 KiB
// LIMITED: %{{.*}}: tensor<1024x64xf32> {dist.placement = #S0_x}
// LEAST: error: no placement fits into 19.5 KiB per rank: with every tensor divided as far as it may be, {{[0-9.]+}} KiB are parameters, their gradients and states, and inputs, and 512 B other values; 41472 bytes (40.5 KiB) are enough
// ENOUGH: a rank holds at most 40.5 KiB
// LESS: error: no placement fits into 40.5 KiB per rank{{.*}}; 41472 bytes (40.5 KiB) are enough
// LEAST: note: most of these are held here
dist.mesh @mesh ["x" = 8]
func.func @f(%x: tensor<16x1024xf32> {dist.placement = #dist.on<@mesh, x = S(0)>}, %w: tensor<1024x64xf32>) -> tensor<16x64xf32> {
  %0 = aten.mm(%x, %w) : (tensor<16x1024xf32>, tensor<1024x64xf32>) -> tensor<16x64xf32>
  return %0 : tensor<16x64xf32>
}
