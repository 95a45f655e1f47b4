// RUN: cleave-opt %s --build-schedule="schedule=1f1b ranks=2 microbatches=2" | FileCheck %s --check-prefix=F1B
// RUN: cleave-opt %s --build-schedule="schedule=zb_h1 ranks=2 microbatches=2 symbol=step merge-backward=true buckets=2 steps=true max-unsharded=1" | FileCheck %s --check-prefix=ONCE
// RUN: cleave-opt %s --build-schedule="schedule=looped-bfs ranks=2 chunks=2 microbatches=2 forward-only=true" | FileCheck %s --check-prefix=FORWARD
// RUN: cleave-opt %s --build-schedule="schedule=zbv ranks=2 microbatches=2 topology=v" | FileCheck %s --check-prefix=ZBV
// RUN: cleave-opt %s --build-schedule="file=%S/Inputs/two-ranks.txt" | FileCheck %s --check-prefix=TEXT
// RUN: cleave-opt %s --build-schedule="file=%S/Inputs/two-ranks.csv" | FileCheck %s --check-prefix=CSV

// The first is the example of the pass's description.
//      F1B: pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
// F1B-NEXT:   rank 0: F0.0 F0.1 B0.0 B0.1
// F1B-NEXT:   rank 1: F1.0 B1.0 F1.1 B1.1
// F1B-NEXT: }

//      ONCE: pipeline.schedule @step "zb-h1" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
// ONCE-NEXT:   rank 0: unshard0 F0.0 F0.1 B0.0 B0.1 reduce0.0 reduce0.1 reshard0 step0
// ONCE-NEXT:   rank 1: unshard1 F1.0 I1.0 F1.1 I1.1 W1.0 W1.1 reduce1.0 reduce1.1 reshard1 step1

//      FORWARD: pipeline.schedule @schedule "looped-bfs" ranks 2 stages 4 microbatches 2 topology loop forward_only transfers implied {
// FORWARD-NEXT:   rank 0: F0.0 F0.1 F2.0 F2.1
// FORWARD-NEXT:   rank 1: F1.0 F1.1 F3.0 F3.1

// ZBV: pipeline.schedule @schedule "zbv" ranks 2 stages 4 microbatches 2 topology v transfers implied {

//      TEXT: pipeline.schedule @schedule "by hand" ranks 2 stages 2 microbatches 1 topology loop transfers explicit {
// TEXT-NEXT:   rank 0: F0.0 sendF0.0 recvB0.0 B0.0
// TEXT-NEXT:   rank 1: recvF1.0 F1.0 B1.0 sendB1.0

//      CSV: pipeline.schedule @schedule "csv" ranks 2 stages 2 microbatches 1 topology loop transfers implied {
// CSV-NEXT:   rank 0: F0.0 B0.0
// CSV-NEXT:   rank 1: F1.0 B1.0
