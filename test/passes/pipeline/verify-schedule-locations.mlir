// Problems are at the actions: in the op's text, or in the file from which the schedule was built.
//
// RUN: not cleave-opt %s --verify-schedule 2>&1 | FileCheck %s
// RUN: echo "module {}" > %t.mlir
// RUN: not cleave-opt %t.mlir --build-schedule=file=%S/Inputs/twice.txt --verify-schedule 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not cleave-opt %t.mlir --build-schedule=file=%S/Inputs/twice.csv --verify-schedule 2>&1 | FileCheck %s --check-prefix=CSV
//
// Actions that passes insert do not move the others.
// RUN: not cleave-opt %t.mlir --build-schedule=file=%S/Inputs/twice.txt --insert-p2p --verify-schedule 2>&1 | FileCheck %s --check-prefix=INSERTED
//
// Without a text that can be read again, problems are at the op.
// RUN: not cleave-opt --verify-schedule < %s 2>&1 | FileCheck %s --check-prefix=INPUT

// CHECK: verify-schedule-locations.mlir:[[#@LINE+11]]:7: error: 'pipeline.schedule' op rank 0, position 2: F0.0 runs a second time
// CHECK: verify-schedule-locations.mlir:[[#@LINE+8]]:11: note: rank 0, position 0: here first
// FILE: twice.txt:8:3: error: 'pipeline.schedule' op rank 0, position 2: F0.0 runs a second time
// FILE: twice.txt:6:9: note: rank 0, position 0: here first
// CSV: twice.csv:1:10: error: 'pipeline.schedule' op rank 0, position 2: F0.0 runs a second time
// CSV: twice.csv:1:1: note: rank 0, position 0: here first
// INSERTED: twice.txt:8:3: error: 'pipeline.schedule' op rank 0, position {{[3-9]}}: F0.0 runs a second time
// INPUT: {{^}}<stdin>:[[#@LINE+1]]:1: error: 'pipeline.schedule' op rank 0, position 2: F0.0 runs a second time
pipeline.schedule @twice "transfers {" ranks 2 stages 2 microbatches 2 topology loop forward_only transfers implied attributes {pipeline.x = "{"} {
  rank 0: F0.0 F0.1
    // Again: {
      F0.0
  rank 1: F1.0 F1.1
}
