// Buckets, sums over stages and steps in a schedule: what --build-schedule adds, and what is wrong in one from a file.
//
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="at=b" --sync-gradients=axis=dp --bucket-gradients --clip-gradients -o %t.mlir
// RUN: cleave-opt %t.mlir --build-schedule="schedule=1f1b ranks=2 microbatches=1" --insert-p2p --verify-schedule | FileCheck %s
// RUN: sed '/^rank 0/s/ collective "stage_sum.gradient_norm_squared"\[0 1\]//' %S/Inputs/stage-sums.txt > %t.never.txt
// RUN: not cleave-opt %t.mlir --build-schedule="file=%t.never.txt" 2>&1 | FileCheck %s --check-prefix=NEVER
// RUN: sed 's/\(collective "stage_sum.gradient_norm_squared"\[0 1\]\) step0/step0 \1/' %S/Inputs/stage-sums.txt > %t.late.txt
// RUN: not cleave-opt %t.mlir --build-schedule="file=%t.late.txt" 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: sed 's/reduce0.1 \(collective "stage_sum.gradient_norm_squared"\[0 1\]\)/\1 reduce0.1/' %S/Inputs/stage-sums.txt > %t.early.txt
// RUN: not cleave-opt %t.mlir --build-schedule="file=%t.early.txt" 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: sed 's/\(collective "stage_sum.gradient_norm_squared"\[0 1\]\) step0/\1 \1 step0/' %S/Inputs/stage-sums.txt > %t.twice.txt
// RUN: not cleave-opt %t.mlir --build-schedule="file=%t.twice.txt" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: sed 's/squared"\[0 1\] step0/squared"[0] step0/' %S/Inputs/stage-sums.txt > %t.some.txt
// RUN: not cleave-opt %t.mlir --build-schedule="file=%t.some.txt" 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: sed 's/reduce1.1/reduce1.2/' %S/Inputs/stage-sums.txt > %t.bucket.txt
// RUN: not cleave-opt %t.mlir --build-schedule="file=%t.bucket.txt" --verify-schedule 2>&1 | FileCheck %s --check-prefix=BUCKET
// RUN: cleave-opt %t.mlir --build-schedule="file=%S/Inputs/stage-sums.txt" --verify-schedule -o /dev/null

// One bucket of each stage, then the function that waits for it.
// CHECK: rank 0: {{.*}}B0.0 reduce0.0 reduce0.1
// CHECK: collective "stage_sum.gradient_norm_squared"[0 1] step0
// CHECK: rank 1: {{.*}}reduce1.0 reduce1.1
// CHECK: collective "stage_sum.gradient_norm_squared"[0 1] step1

// NEVER: error: schedule 'sums': rank 0 never enters collective "stage_sum.gradient_norm_squared", which the updates' sum over stages needs
// LATE: error: schedule 'sums': rank 0 takes step0 (position 4) before collective "stage_sum.gradient_norm_squared" (position 5), whose sum it needs
// EARLY: error: schedule 'sums': rank 0 enters collective "stage_sum.gradient_norm_squared" (position 3) before reduce0.1 (position 4), which computes its term
// TWICE: error: schedule 'sums': rank 0 enters collective "stage_sum.gradient_norm_squared" a second time (position 5)
// SOME: error: schedule 'sums': rank 0 enters collective "stage_sum.gradient_norm_squared" of some ranks only, expected all 2 of the pipeline
// BUCKET: error: {{.*}}reduce1.2: stage 1 has 2 buckets
