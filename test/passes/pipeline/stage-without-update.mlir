// A stage without parameters takes no optimizer step.
//
// RUN: cleave-opt %s --build-schedule="schedule=1f1b ranks=2 microbatches=1" --verify-schedule | FileCheck %s

// CHECK: pipeline.schedule @schedule "1f1b"
// CHECK-NEXT: rank 0: F0.0 B0.0 step0{{$}}
// CHECK-NEXT: rank 1: F1.0 B1.0{{$}}
func.func @forward_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}) -> (tensor<2xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  return %w : tensor<2xf32>
}
func.func @backward_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}) -> (tensor<2xf32> {train.role = #train.role<gradient "a">}) attributes {train.phase = #train.phase<backward>, train.stage = 0} {
  return %w : tensor<2xf32>
}
func.func @update_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}, %g: tensor<2xf32> {train.role = #train.role<gradient "a">}) -> (tensor<2xf32> {train.role = #train.role<parameter "a">}) attributes {train.phase = #train.phase<update>, train.stage = 0} {
  return %g : tensor<2xf32>
}
func.func @forward_1(%x: tensor<2xf32> {train.role = #train.role<input "x">}) -> (tensor<2xf32> {train.role = #train.role<output "1">}) attributes {train.phase = #train.phase<forward>, train.stage = 1} {
  return %x : tensor<2xf32>
}
func.func @backward_1(%x: tensor<2xf32> {train.role = #train.role<input "x">}) -> (tensor<2xf32> {train.role = #train.role<gradient "x">}) attributes {train.phase = #train.phase<backward>, train.stage = 1} {
  return %x : tensor<2xf32>
}
