// RUN: cleave-opt %s --split-input-file --insert-p2p | FileCheck %s
// RUN: cleave-opt %s --split-input-file --insert-p2p="receives=late matching=tag" | FileCheck %s --check-prefix=LATE
// RUN: cleave-opt %s --split-input-file --insert-p2p="streams=peer" --verify-schedule="streams=peer" | FileCheck %s --check-prefix=PEER

// Attributes of the op are kept.
//      CHECK: pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit attributes {test.tag} {
// CHECK-NEXT:   rank 0: recvB0.0 recvB0.1 F0.0 sendF0.0 F0.1 sendF0.1 B0.0 B0.1
// CHECK-NEXT:   rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
// CHECK-NEXT: }
//      LATE: pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit attributes {test.tag} {
// LATE-NEXT:   rank 0: F0.0 sendF0.0 F0.1 sendF0.1 recvB0.0 B0.0 recvB0.1 B0.1
// LATE-NEXT:   rank 1: recvF1.0 F1.0 B1.0 sendB1.0 recvF1.1 F1.1 B1.1 sendB1.1
//      PEER: pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit attributes {test.tag} {
// PEER-NEXT:   rank 0: F0.0 sendF0.0 F0.1 sendF0.1 recvB0.0 B0.0 recvB0.1 B0.1
// PEER-NEXT:   rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied attributes {test.tag} {
  rank 0: F0.0 F0.1 B0.0 B0.1
  rank 1: F1.0 B1.0 F1.1 B1.1
}

// -----

// Stages 1 and 2 share rank 1: nothing is sent between them. Two schedules are two.
//      CHECK: pipeline.schedule @v "" ranks 2 stages 4 microbatches 1 topology v transfers explicit {
// CHECK-NEXT:   rank 0: recvF3.0 F0.0 sendF0.0 F3.0 recvB0.0 B3.0 sendB3.0 B0.0
// CHECK-NEXT:   rank 1: recvF1.0 F1.0 recvB2.0 F2.0 sendF2.0 B2.0 B1.0 sendB1.0
//      CHECK: pipeline.schedule @one "" ranks 1 stages 1 microbatches 1 topology loop transfers explicit {
// CHECK-NEXT:   rank 0: F0.0 B0.0
pipeline.schedule @v "" ranks 2 stages 4 microbatches 1 topology v transfers implied {
  rank 0: F0.0 F3.0 B3.0 B0.0
  rank 1: F1.0 F2.0 B2.0 B1.0
}
pipeline.schedule @one "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {
  rank 0: F0.0 B0.0
}
