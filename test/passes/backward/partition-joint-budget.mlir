// What is saved is as much as the memory of a step allows; what is recomputed is what takes the least time.

// RUN: cleave-opt %s --partition-joint="policy=budget memory=1MiB" | FileCheck %s --check-prefix=PLENTY
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1900 json=%t.json explain=true" 2>&1 | FileCheck %s --check-prefix=LESS
// RUN: FileCheck %s --check-prefix=JSON < %t.json
// RUN: cleave-opt %s --partition-joint="policy=budget memory=2500 lowered=true microbatches=2" | FileCheck %s --check-prefix=LOWERED
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1800 offload=true recompute=views explain=true" 2>&1 | FileCheck %s --check-prefix=OFFLOAD
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1400 offload=true recompute=views explain=true" 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1MiB offload=true" | FileCheck %s --check-prefix=PLENTY --implicit-check-not=dist.offload
// RUN: not cleave-opt %s --partition-joint="policy=budget memory=1KiB offload=true" -o %t.none 2>&1 | FileCheck %s --check-prefix=LEAST
// RUN: not cleave-opt %s --partition-joint="policy=budget memory=1KiB" -o %t.none 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: not cleave-opt %s --partition-joint="policy=budget" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %s --partition-joint="policy=budget memory=-3GiB" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not cleave-opt %s --partition-joint="memory=3GiB" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not cleave-opt %s --partition-joint="policy=budget memory=3GiB microbatches=0" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1800 offload=true explain=true" 2>&1 | FileCheck %s --check-prefix=NOMINAL --implicit-check-not=dist.offload
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1800 offload=true explain=true cluster=%S/../../../examples/devices/cluster-dgx-h100.json" 2>&1 | FileCheck %s --check-prefix=CLUSTER --implicit-check-not=train.recomputed
// RUN: mkdir -p %t.devices
// RUN: cp %S/../../../examples/devices/*.json %t.devices
// RUN: sed -e '/"host_bandwidth"/d' -e 's/"flops_32bit": 67000000000000.0,/"flops_32bit": 67000000000000.0/' -i %t.devices/h100-sxm.json
// RUN: not cleave-opt %s --partition-joint="policy=budget memory=1800 offload=true cluster=%t.devices/cluster-dgx-h100.json" 2>&1 | FileCheck %s --check-prefix=LINK
// RUN: cleave-opt %s --partition-joint="policy=budget memory=1MiB cluster=%t.devices/cluster-dgx-h100.json" | FileCheck %s --check-prefix=PLENTY
// RUN: not cleave-opt %s --partition-joint="policy=budget memory=1800 cluster=/nonexistent/c.json" 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not cleave-opt %s --partition-joint="cluster=/nonexistent/c.json" 2>&1 | FileCheck %s --check-prefix=POLICY

// PLENTY-NOT: train.recomputed

// LESS: a step needs 1.8 KiB of 1.9 KiB; recomputation costs 512 B of memory traffic
// LESS-NEXT: on the frontier: 3 partitions, from 1.5 KiB (recomputing 1.2 KiB) to 2.0 KiB (recomputing 0 B)
// LESS: backward recomputes
// LESS-NEXT: 1 aten.cos
// LESS: func.func @backward
// LESS: aten.cos{{.*}} {train.recomputed}

// JSON: "budget": {
// JSON: "budget_bytes": 1900,
// JSON: "frontier": [
// JSON: "recompute_bytes": 1280,
// JSON: "step_peak_bytes": 1540
// JSON: "recompute_bytes": 512,
// JSON: "step_peak_bytes": 1796

// With the gradient beside the values that are saved, the same budget holds one value less.
// LOWERED-COUNT-1: train.recomputed
// LOWERED-NOT: train.recomputed

// What may not be recomputed can wait on the host.
// OFFLOAD: a step needs 1.8 KiB of 1.8 KiB; recomputation costs 25.0 KiB of memory traffic
// OFFLOAD: each microbatch offloads 256 B
// OFFLOAD: saved values (5, 1.0 KiB, and 256 B on the host)
// OFFLOAD-NEXT: 256 B  mm  !dist.host<tensor<8x8xf32>>  forward -> backward
// OFFLOAD: func.func @forward
// OFFLOAD: %[[H:.*]] = aten.mm
// OFFLOAD-NEXT: dist.offload %[[H]]
// OFFLOAD: func.func @backward
// A copy takes longer than all products together. Right before its use it takes less memory than if it came as early as can be.
// OFFLOAD: dist.reload
// OFFLOAD-NEXT: aten.mul
// LATE: a step needs 1.3 KiB of 1.4 KiB
// LATE: func.func @backward
// LATE: aten.mm
// LATE-NEXT: %[[BACK:.*]] = dist.reload
// LATE-NEXT: aten.mul(%{{.*}}, %[[BACK]])

// So small, values take longer to be copied than to be recomputed on a nominal device; on one that takes time for each kernel they do not.
// NOMINAL: a step needs 1.8 KiB of 1.8 KiB; recomputation costs 512 B of memory traffic
// NOMINAL: aten.cos{{.*}} {train.recomputed}
// CLUSTER: each microbatch offloads 256 B
// CLUSTER: dist.offload
// LINK: error: {{.*}}h100-sxm.json: facts: expected "host_bandwidth", bytes per second and direction, since the program copies to host memory, found none
// FILE: error: /nonexistent/c.json: No such file or directory

// LEAST: error: cannot do with 1.0 KiB of memory: the least that a step needs, whatever is recomputed or offloaded, is

// SMALL: error: cannot do with 1.0 KiB of memory: the least that a step needs, whatever is recomputed, is 1.5 KiB (1540 bytes); of these 256 B are parameters, 256 B are inputs, and 1.0 KiB are values of a microbatch
// SMALL: note: the peak is at 'aten.mean' of the forward
// NONE: error: expects an amount of memory with policy=budget, such as memory=80GiB; found ''
// NEGATIVE: error: expects an amount of memory with policy=budget, such as memory=80GiB; found '-3GiB'
// POLICY: error: expects 'memory', 'microbatches', 'lowered', 'offload', 'cluster' and 'graph' with policy=budget only
// COUNT: error: expects at least one microbatch per step, found microbatches=0
module {
  func.func @microbatch(
      %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
      %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>},
      %s: tensor<f32> {train.role = #train.role<seed>})
      -> (tensor<f32> {train.role = #train.role<loss>},
          tensor<8x8xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %h1 = aten.mm(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %a1 = aten.cos(%h1) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %h2 = aten.mm(%a1, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %a2 = aten.cos(%h2) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %h3 = aten.mm(%a2, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %a3 = aten.cos(%h3) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %loss = aten.mean(%a3) : (tensor<8x8xf32>) -> tensor<f32>
    %g0 = aten.expand(%s, size = [8, 8]) : (tensor<f32>) -> tensor<8x8xf32>
    %g1 = aten.mul(%g0, %h3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g2 = aten.mm(%a2, %g1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g3 = aten.mul(%g2, %h2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g4 = aten.mm(%a1, %g3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g5 = aten.mul(%g4, %h1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %g6 = aten.mm(%x, %g5) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %loss, %g6 : tensor<f32>, tensor<8x8xf32>
  }
}
