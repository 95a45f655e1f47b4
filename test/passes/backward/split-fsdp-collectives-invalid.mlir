// RUN: cleave-opt %s --split-input-file --split-fsdp-collectives --verify-diagnostics

module {
dist.mesh @mesh ["fsdp" = 2]
// expected-error @below {{already exists; communication once per step cannot be added to it}}
func.func @unshard(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<8xf32> {train.role = #train.role<saved "whole">})
    attributes {train.phase = #train.phase<unshard>} {
  %w1 = dist.all_gather(%w) dim 0 over @mesh ["fsdp"] : tensor<4xf32> -> tensor<8xf32>
  return %w1 : tensor<8xf32>
}
func.func @microbatch(%w: tensor<8xf32> {train.role = #train.role<saved "whole">})
    -> (tensor<8xf32> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<8xf32>
}
}
