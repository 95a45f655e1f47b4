// A pass that works on a whole microbatch says so where it is in parts.

// RUN: not cleave-opt %s --partition-joint 2>&1 | FileCheck %s
// CHECK: partition-joint-twice.mlir:[[@LINE+1]]:1: error: is part of a split microbatch; expected forward and backward in one function of phase microbatch, as before --partition-joint
func.func @forward() attributes {train.phase = #train.phase<forward>} { return }
func.func @backward() attributes {train.phase = #train.phase<backward>} { return }
