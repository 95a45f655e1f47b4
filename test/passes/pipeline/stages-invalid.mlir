// A stage's output that is not its successor's input, in number and in type.
//
// RUN: cleave-opt %s --split-input-file --verify-diagnostics --verify-schedule

// expected-note @+1 {{stage 0 returns it with type 'tensor<2xf32>'}}
func.func @forward_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}) -> (tensor<2xf32> {train.role = #train.role<crossing "h">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  return %w : tensor<2xf32>
}
// expected-error @+1 {{takes #train.role<crossing "h"> of type 'tensor<3xf32>'}}
func.func @forward_1(%h: tensor<3xf32> {train.role = #train.role<crossing "h">}) -> (tensor<3xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 1} {
  return %h : tensor<3xf32>
}
pipeline.schedule @schedule "" ranks 2 stages 2 microbatches 1 topology loop forward_only transfers explicit {
  rank 0: F0.0 sendF0.0
  rank 1: recvF1.0 F1.0
}

// -----

func.func @forward_0(%w: tensor<2xf32> {train.role = #train.role<parameter "a">}) -> (tensor<2xf32> {train.role = #train.role<output "0">}) attributes {train.phase = #train.phase<forward>, train.stage = 0} {
  return %w : tensor<2xf32>
}
// expected-error @+1 {{belongs to stage 2, but the program has no stage 1}}
func.func @forward_2(%w: tensor<2xf32> {train.role = #train.role<parameter "b">}) -> (tensor<2xf32> {train.role = #train.role<output "1">}) attributes {train.phase = #train.phase<forward>, train.stage = 2} {
  return %w : tensor<2xf32>
}
pipeline.schedule @schedule "" ranks 2 stages 2 microbatches 1 topology loop forward_only transfers implied {
  rank 0: F0.0
  rank 1: F1.0
}
