// A schedule against the program's stages.
//
// RUN: cleave-opt %s --build-schedule="schedule=1f1b ranks=2 microbatches=2" --verify-schedule | FileCheck %s --check-prefix=FULL
// RUN: cleave-opt %s --build-schedule="schedule=offline ranks=1 microbatches=1" --insert-p2p --verify-schedule | FileCheck %s --check-prefix=ONE
// RUN: not cleave-opt %s --build-schedule="schedule=zb-h1 ranks=2 microbatches=2" 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: not cleave-opt %s --build-schedule="schedule=1f1b ranks=3 microbatches=3" 2>&1 | FileCheck %s --check-prefix=SHARE
// RUN: not cleave-opt %s --build-schedule="schedule=looped-bfs ranks=2 chunks=2 microbatches=2" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not cleave-opt %s --build-schedule="schedule=1f1b ranks=2 microbatches=2 steps=true" 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: cleave-opt %s --build-schedule="schedule=1f1b ranks=2 microbatches=2 max-unsharded=1" --verify-schedule | FileCheck %s --check-prefix=FULL
// RUN: cleave-opt %s --build-schedule="file=%S/Inputs/two-ranks.txt" --verify-schedule | FileCheck %s --check-prefix=FILE

// From a whole program to one that is proved; the skip connection is handed on by stage 1.
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="at=b,c" --build-schedule="schedule=1f1b ranks=3 microbatches=1" --insert-p2p --verify-schedule | FileCheck %s --check-prefix=CHAIN
// RUN: cleave-opt %S/Inputs/chain.mlir --outline-stages="count=2 balance=cost" --split-backward --build-schedule="schedule=zb-h1 ranks=2 microbatches=2" --insert-p2p --verify-schedule | FileCheck %s --check-prefix=SPLIT
// CHAIN: pipeline.schedule @schedule "1f1b" ranks 3 stages 3 microbatches 1 topology loop transfers explicit {
// CHAIN-NEXT: rank 0: {{.*}} B0.0 step0{{$}}
// CHAIN-NEXT: rank 1: {{.*}} step1{{$}}
// CHAIN-NEXT: rank 2: {{.*}} sendB2.0{{$}}
// SPLIT: pipeline.schedule @schedule "zb-h1" ranks 2 stages 2 microbatches 2 topology loop transfers explicit {

// What has a function for it is in the schedule: one bucket of stage 1, the updates. Nothing is gathered, however
// much may be.
// FULL: pipeline.schedule @schedule "1f1b" ranks 2 stages 2 microbatches 2 topology loop transfers implied {
// FULL-NEXT: rank 0: F0.0 F0.1 B0.0 B0.1 step0
// FULL-NEXT: rank 1: F1.0 B1.0 F1.1 B1.1 reduce1.0 step1
// ONE: rank 0: F0.0 F1.0 B1.0 {{(reduce1.0 )?}}B0.0 {{.*}}step0 step1

// PARTS: :[[# @LINE + 10]]:1: error: belongs to stage 0, which has no function of phase backward_input or backward_weight, but schedule 'zb-h1' has its backward-input
// PARTS: note: the schedule is here
// SHARE: error: schedule '1f1b' needs a stage for each of the 3 ranks, found 2
// COUNT: error: schedule 'looped-bfs' has 4 stages, but the program has 2
// COUNT: note: the last stage is here
// OPTION: error: has stages, whose functions determine reductions and updates; 'buckets' and 'steps' are for modules without stages
// What a file does not say is added.
// FILE: rank 0: F0.0 sendF0.0 recvB0.0 B0.0 step0{{$}}
// FILE-NEXT: rank 1: recvF1.0 F1.0 B1.0 reduce1.0 sendB1.0 step1{{$}}

func.func @forward_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}) -> (tensor<2xf32> {train.role = #train.role<crossing "h">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  return %w : tensor<2xf32>
}
func.func @backward_0(%g: tensor<2xf32> {train.role = #train.role<crossing_gradient "h">}) -> (tensor<2xf32> {train.role = #train.role<gradient "a">}) attributes {train.phase = #train.phase<backward>, train.stage = 0} {
  return %g : tensor<2xf32>
}
func.func @update_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}, %g: tensor<2xf32> {train.role = #train.role<gradient "a">}) -> (tensor<2xf32> {train.role = #train.role<parameter "a">}) attributes {train.phase = #train.phase<update>, train.stage = 0} {
  return %g : tensor<2xf32>
}
func.func @forward_1(%h: tensor<2xf32> {train.role = #train.role<crossing "h">}) -> (tensor<2xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 1} {
  return %h : tensor<2xf32>
}
func.func @backward_1(%b: tensor<2xf32> {train.role = #train.role<parameter "b">}) -> (tensor<2xf32> {train.role = #train.role<crossing_gradient "h">}, tensor<2xf32> {train.role = #train.role<gradient "b">}) attributes {train.phase = #train.phase<backward>, train.stage = 1} {
  return %b, %b : tensor<2xf32>, tensor<2xf32>
}
func.func @reduce_1(%g: tensor<2xf32> {train.role = #train.role<gradient "b">}) -> (tensor<2xf32> {train.role = #train.role<gradient "b">}) attributes {train.phase = #train.phase<reduce>, train.stage = 1} {
  return %g : tensor<2xf32>
}
func.func @update_1(%w: tensor<2xf32> {train.role = #train.role<parameter "b">}, %g: tensor<2xf32> {train.role = #train.role<gradient "b">}) -> (tensor<2xf32> {train.role = #train.role<parameter "b">}) attributes {train.phase = #train.phase<update>, train.stage = 1} {
  return %g : tensor<2xf32>
}
