// RUN: cleave-opt %s --split-input-file --verify-diagnostics --insert-p2p="receive-slots=1 send-slots=1"
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --insert-p2p="matching=mpi" 2>&1 | FileCheck %s --check-prefix=MATCHING
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --insert-p2p="streams=two" 2>&1 | FileCheck %s --check-prefix=STREAMS
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --insert-p2p="receives=soon" 2>&1 | FileCheck %s --check-prefix=RECEIVES
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --insert-p2p="receive-slots=-1" 2>&1 | FileCheck %s --check-prefix=SLOTS
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --insert-p2p="forward-cost=-1" 2>&1 | FileCheck %s --check-prefix=COST

// MATCHING: Cannot find option named 'mpi'
// STREAMS: Cannot find option named 'two'
// RECEIVES: Cannot find option named 'soon'
// SLOTS: error: expects from 0 to 1073741824 for 'receive-slots', found -1
// COST: error: expects from 0 to 1048576 for 'forward-cost', found -1

// The compute order is cyclic.
// expected-error @+1 {{the compute schedule cannot progress}}
pipeline.schedule @cyclic "" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
  rank 0: F0.0 B0.0 F0.1 B0.1
  rank 1: F1.0 F1.1 B1.0 B1.1
}

// -----

// expected-error @+1 {{already has explicit transfers}}
pipeline.schedule @done "" ranks 1 stages 1 microbatches 1 topology loop transfers explicit {rank 0: F0.0 B0.0}

// -----

// expected-error @+1 {{expected an action (F, B, I, W, sendF, recvF, sendB, recvB, unshard, reshard, reduce, step, call, collective, '{'), found 'X1.0'}}
pipeline.schedule @word "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {rank 0: F0.0 rank 1: X1.0}

// -----

// expected-error @+1 {{stage 2 is out of range: there are 1 stages}}
pipeline.schedule @range "" ranks 1 stages 1 microbatches 1 topology loop transfers implied {rank 0: F2.0}

// -----

// expected-error @+1 {{has no pipeline.schedule; run --build-schedule first}}
module {}
