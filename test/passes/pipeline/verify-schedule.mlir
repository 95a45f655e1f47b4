// RUN: cleave-opt %s -o %t.before.mlir
// RUN: cleave-opt %s --verify-schedule -o %t.after.mlir
// RUN: diff %t.before.mlir %t.after.mlir
// RUN: echo "module {}" > %t.empty.mlir
// RUN: cleave-opt %t.empty.mlir --build-schedule="schedule=zbv ranks=4 microbatches=8" --verify-schedule --insert-p2p="receive-slots=4 send-slots=4" --verify-schedule="matching=tag,nccl receive-slots=4 send-slots=4" -o /dev/null

// Right ones: as they are, of one rank, a collective, without transfers.
pipeline.schedule @f1b "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {
  rank 0: F0.0 sendF0.0 F0.1 sendF0.1 recvB0.0 B0.0 recvB0.1 B0.1 reduce0.0 collective "tied"[0 1] step0
  rank 1: recvF1.0 F1.0 recvF1.1 B1.0 sendB1.0 F1.1 B1.1 sendB1.1 reduce1.0 collective "tied"[0 1] step1
}
pipeline.schedule @one "offline" ranks 1 stages 2 microbatches 1 topology loop transfers explicit {
  rank 0: F0.0 F1.0 B1.0 B0.0
}
pipeline.schedule @implied "" ranks 2 stages 2 microbatches 1 topology loop transfers implied {
  rank 0: F0.0 I0.0 W0.0
  rank 1: F1.0 I1.0 W1.0
}
