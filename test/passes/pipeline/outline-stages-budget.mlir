// RUN: cleave-opt %s --outline-stages="policy=budget memory=1MiB microbatches=2 explain=true" 2>&1 | FileCheck %s --check-prefix=PLENTY
// RUN: cleave-opt %s --outline-stages="policy=budget memory=3000 microbatches=2 explain=true" 2>&1 | FileCheck %s --check-prefix=LESS
// RUN: cleave-opt %s --outline-stages="policy=budget memory=3000 microbatches=2 explain=true cluster=%S/../../../examples/devices/cluster-dgx-h100.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1000 microbatches=2" -o %t.none 2>&1 | FileCheck %s --check-prefix=SMALL
// RUN: test ! -e %t.none
// RUN: not cleave-opt %s --outline-stages="policy=budget" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-opt %s --outline-stages="memory=1MiB" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1MiB schedule=zb-h1 lowered=true" 2>&1 | FileCheck %s --check-prefix=HALVES
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1MiB schedule=none" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1MiB ranks=-2" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1MiB ranks=3" 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1MiB microbatches=0" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not cleave-opt %s --outline-stages="policy=budget memory=1MiB topology=ring" 2>&1 | FileCheck %s --check-prefix=TOPOLOGY

// Two microbatches of the first rank are in flight, one of the second.
// PLENTY: rank 0: peak of a step 3.0 KiB (3072 bytes), of it state 512 B; recomputed of a microbatch 0 B of traffic
// PLENTY-NEXT: rank 1: peak of a step 1.8 KiB (1796 bytes), of it state 256 B; recomputed of a microbatch 0 B of traffic
// PLENTY-NOT: train.recomputed

// LESS: rank 0: peak of a step 2.8 KiB (2816 bytes), of it state 512 B; recomputed of a microbatch 512 B of traffic
// LESS-NEXT: rank 1: {{.*}}; recomputed of a microbatch 0 B of traffic
// LESS: func.func @backward_1
// LESS-NOT: train.recomputed
// LESS: func.func @backward_0
// LESS: aten.cos{{.*}} {train.recomputed}

// On that device a kernel takes what MiB of traffic take.
// CLUSTER: rank 0: peak of a step 2.8 KiB (2816 bytes), of it state 512 B; recomputed of a microbatch {{[0-9.]+}} MiB of traffic
// CLUSTER-NEXT: rank 1: {{.*}}; recomputed of a microbatch 0 B of traffic

// SMALL: error: cannot do with 1000 B of memory: rank 0 of schedule '1f1b' needs 2.2 KiB (2304 bytes) even if all that helps is recomputed; of these 256 B are parameters, 256 B are inputs, and 1.8 KiB are values of microbatches
// NONE: error: expects an amount of memory with policy=budget, such as memory=80GiB; found ''
// POLICY: error: expects 'memory', 'offload', 'lowered', 'schedule', 'ranks', 'microbatches' and 'topology' with policy=budget only
// HALVES: error: expects a schedule of whole backwards with policy=budget and lowered=true: the frames of halves are not planned; found 'zb-h1'
// SCHEDULE: error: unknown schedule 'none'; known schedules: gpipe
// RANKS: error: expects from 0 to 65536 for 'ranks', found -2
// MANY: error: schedule '1f1b' needs a stage for each of the 3 ranks, found 2
// COUNT: error: expects from 1 to 16777216 for 'microbatches', found 0
// TOPOLOGY: error: expects loop or v for 'topology', found 'ring'
func.func @microbatch(
    %x: tensor<8x8xf32> {train.role = #train.role<input "x" batch 0>},
    %v: tensor<8x8xf32> {train.role = #train.role<parameter "v">},
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "w">},
    %s: tensor<f32> {train.role = #train.role<seed>})
    -> (tensor<f32> {train.role = #train.role<loss>},
        tensor<8x8xf32> {train.role = #train.role<gradient "v">},
        tensor<8x8xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  %h1 = aten.mm(%x, %v) {train.stage = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a1 = aten.cos(%h1) {train.stage = 0 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %h2 = aten.mm(%a1, %v) {train.stage = 0 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a2 = aten.cos(%h2) {train.stage = 0 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %h3 = aten.mm(%a2, %w) {train.stage = 1 : i64} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %a3 = aten.cos(%h3) {train.stage = 1 : i64} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = aten.mean(%a3) {train.stage = 1 : i64} : (tensor<8x8xf32>) -> tensor<f32>
  %g0 = aten.expand(%s, size = [8, 8]) : (tensor<f32>) -> tensor<8x8xf32>
  %g1 = aten.mul(%g0, %h3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %gw = aten.mm(%a2, %g1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g2 = aten.mm(%g1, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g3 = aten.mul(%g2, %h2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g4 = aten.mm(%a1, %g3) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %g5 = aten.mul(%g4, %h1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %gv = aten.mm(%x, %g5) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %loss, %gv, %gw : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
}
