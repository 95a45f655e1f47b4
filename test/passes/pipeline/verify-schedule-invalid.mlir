// RUN: cleave-opt %s --split-input-file --verify-diagnostics --verify-schedule
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --verify-schedule="matching=mpi" 2>&1 | FileCheck %s --check-prefix=MATCHING
// RUN: not cleave-opt %S/Inputs/two-ranks.mlir --verify-schedule="max-problems=0" 2>&1 | FileCheck %s --check-prefix=PROBLEMS

// MATCHING: error: expects tag or nccl for 'matching', found 'mpi'
// PROBLEMS: error: expects from 1 to 1048576 for 'max-problems', found 0

// A step that never runs, and one that runs twice.
// expected-error @+3 {{'pipeline.schedule' op rank 1 never runs F1.1 (the forward of stage 1, microbatch 1)}}
// expected-error @+4 {{'pipeline.schedule' op rank 1, position 1: F1.0 runs a second time}}
// expected-note @+3 {{rank 1, position 0: here first}}
pipeline.schedule @steps "" ranks 2 stages 2 microbatches 2 topology loop forward_only transfers implied {
  rank 0: F0.0 F0.1
  rank 1: F1.0 F1.0
}

// -----

// A send without its receive.
// expected-error @+2 {{'pipeline.schedule' op rank 0, position 1: sendF0.0 has no receive: rank 1 never starts recvF1.0}}
pipeline.schedule @missing "" ranks 2 stages 2 microbatches 1 topology loop forward_only transfers explicit {
  rank 0: F0.0 sendF0.0
  rank 1: F1.0
}

// -----

// Sends in another order than their receives: harmless by tag, silently wrong values under NCCL.
// expected-error @+4 {{'pipeline.schedule' op rank 1, position 0: recvF1.0 would receive what sendF0.1 sends: their orders differ}}
// expected-note @+2 {{rank 0, position 2: the send is here}}
pipeline.schedule @swapped "" ranks 2 stages 2 microbatches 2 topology loop forward_only transfers explicit {
  rank 0: F0.0 F0.1 sendF0.1 sendF0.0
  rank 1: recvF1.0 F1.0 recvF1.1 F1.1
}

// -----

// A cycle of waiting.
// expected-error @+5 {{'pipeline.schedule' op deadlock: each action waits for the next, the last for the first}}
// expected-note @+5 {{rank 0, position 3: B0.0 waits for recvB0.0 of rank 0, position 2}}
// expected-note @+4 {{rank 0, position 2: recvB0.0 waits for sendB1.0 of rank 1, position 5}}
// expected-note @+4 {{rank 1, position 3: F1.1 waits for recvF1.1 of rank 1, position 2}}
// expected-note @+3 {{rank 1, position 2: recvF1.1 waits for sendF0.1 of rank 0, position 5}}
pipeline.schedule @cyclic "" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {
  rank 0: F0.0 sendF0.0 recvB0.0 B0.0 F0.1 sendF0.1 recvB0.1 B0.1
  rank 1: recvF1.0 F1.0 recvF1.1 F1.1 B1.0 sendB1.0 B1.1 sendB1.1
}

// -----

// An action on a rank that does not hold its stage.
// expected-error @+2 {{'pipeline.schedule' op rank 0, position 1: F1.0: stage 1 is on rank 1 in this topology (loop)}}
pipeline.schedule @place "" ranks 2 stages 2 microbatches 1 topology loop forward_only transfers implied {
  rank 0: F0.0 F1.0
  rank 1:
}

// -----

// A bucket that is reduced twice.
// expected-error @+3 {{'pipeline.schedule' op rank 0, position 3: reduce0.0 reduces the bucket a second time}}
// expected-note @+2 {{rank 0, position 2: here first}}
pipeline.schedule @bucket "" ranks 1 stages 1 microbatches 1 topology loop transfers explicit {
  rank 0: F0.0 B0.0 reduce0.0 reduce0.0
}
