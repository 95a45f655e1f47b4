// The trace of pytorch issue 172668, with what its authors leave out filled in so that it is whole. It hangs where two
// ranks share one stream for both directions, as in PyTorch's NCCL backend; with a stream each, or by tag, it runs.
//
// RUN: cleave-opt %s --verify-schedule --verify-schedule="matching=tag" -o /dev/null
// RUN: not cleave-opt %s --verify-schedule="matching=nccl streams=peer" 2>&1 | FileCheck %s

// CHECK: error: 'pipeline.schedule' op deadlock: each action waits for the next, the last for the first
// CHECK: note: rank 0, position 12: recvB2.0 is queued behind sendF0.2 of rank 0, position 11
// CHECK: note: rank 0, position 11: sendF0.2 waits for recvF1.2 of rank 1, position 13
// CHECK: note: rank 1, position 13: recvF1.2 is queued behind sendB3.0 of rank 1, position 10
// CHECK: note: rank 1, position 10: sendB3.0 waits for recvB2.0 of rank 0, position 12
// CHECK-NOT: note:
pipeline.schedule @trace "" ranks 2 stages 4 microbatches 3 topology loop transfers explicit {
  rank 0: F0.0 sendF0.0 F0.1 sendF0.1 recvF2.0 F2.0 sendF2.0 recvF2.1 F2.1 sendF2.1 F0.2
    sendF0.2 recvB2.0 B2.0 sendB2.0 recvB2.1 B2.1 sendB2.1 recvF2.2 F2.2 sendF2.2
    recvB0.0 B0.0 recvB0.1 B0.1 recvB2.2 B2.2 sendB2.2 recvB0.2 B0.2
  rank 1: recvF1.0 F1.0 recvF1.1 sendF1.0 F1.1 recvF3.0 sendF1.1 F3.0 B3.0 recvF3.1 sendB3.0
    F3.1 B3.1 recvF1.2 sendB3.1 F1.2 sendF1.2 recvB1.0 B1.0 sendB1.0 recvB1.1 B1.1
    sendB1.1 recvF3.2 F3.2 B3.2 sendB3.2 recvB1.2 B1.2 sendB1.2
}
