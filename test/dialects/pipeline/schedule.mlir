// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

//      CHECK: pipeline.schedule @step "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {
// CHECK-NEXT:   rank 0: recvB0.0 F0.0 sendF0.0 F0.1 sendF0.1 B0.0 recvB0.1 B0.1
// CHECK-NEXT:   rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
// CHECK-NEXT: }
pipeline.schedule @step "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {
  // A comment with "quotes.
  rank 0: recvB0.0 F0.0 sendF0.0   // forwards
          F0.1 sendF0.1 B0.0 recvB0.1 B0.1
  rank 1: recvF1.0 recvF1.1 F1.0 B1.0 sendB1.0 F1.1 B1.1 sendB1.1
}

// What runs once a step, groups, names.
//      CHECK: pipeline.schedule @all "a \22name\22" ranks 2 stages 4 microbatches 11 topology v forward_only transfers explicit attributes {test.tag} {
// CHECK-NEXT:   rank 0: unshard0 {F0.0 B3.1} {sendF0.10 recvB0.1} reduce2.1 step0 call "a  long // name"
// CHECK-NEXT:     call "log"(2) call "log"(2.10) collective "tied"[0 1] {call "x"}
// CHECK-NEXT:   rank 1:
// CHECK-NEXT: }
pipeline.schedule @all "a \"name\"" ranks 2 stages 4 microbatches 11 topology [0 1 1 0] forward_only transfers explicit attributes {test.tag} {
  rank 0: unshard0 {F0.0 B3.1} {   sendF0.10 recvB0.1 } reduce2.1 step0 call "a  long // name" call "log"(2)
    call "log"(2.10) collective "tied"[0 1] {call "x"}
  rank 1:
}

//      CHECK: pipeline.schedule @map "" ranks 2 stages 3 microbatches 1 topology [0 1 1] transfers implied {
// CHECK-NEXT:   rank 0: F0.0
// CHECK-NEXT:   rank 1: F1.0
// CHECK-NEXT: }
pipeline.schedule @map "" ranks 2 stages 3 microbatches 1 topology [0 1 1] transfers implied {rank 0: F0.0 rank 1: F1.0}

//      CHECK: module attributes {test.transfers = #pipeline.transfers<implied>} {
module attributes {test.transfers = #pipeline.transfers<implied>} {
}
