// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// Every kind with the fields that it can have.

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(
    // CHECK: #train.role<parameter "wte.weight" aliases ["lm_head.weight", "out.weight"]>
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "wte.weight" aliases ["lm_head.weight", "out.weight"]>},
    // CHECK: #train.role<parameter "odd \22name\22" frozen>
    %f: tensor<f32> {train.role = #train.role<parameter "odd \"name\"" frozen>},
    // CHECK: #train.role<buffer "running_mean">
    %b: tensor<8xf32> {train.role = #train.role<buffer "running_mean">},
    // CHECK: #train.role<constant "mask">
    %c: tensor<8xi1> {train.role = #train.role<constant "mask">},
    // CHECK: #train.role<input "x" batch 0 over ["dp", "ep"]>
    %x: tensor<4x8xi64> {train.role = #train.role<input "x" batch 0 over ["dp", "ep"]>},
    // CHECK: #train.role<target "y" batch 1>
    %y: tensor<8x4xi64> {train.role = #train.role<target "y" batch 1>},
    // CHECK: #train.role<seed>
    %s: tensor<f32> {train.role = #train.role<seed>},
    // CHECK: #train.role<accumulator "wte.weight">
    %a: tensor<8x8xf32> {train.role = #train.role<accumulator "wte.weight">},
    // CHECK: #train.role<rng_seed>
    %r: tensor<i64> {train.role = #train.role<rng_seed>},
    // CHECK: #train.role<rng_offset>
    %o: tensor<i64> {train.role = #train.role<rng_offset>})
    // CHECK: #train.role<loss>
    -> (tensor<f32> {train.role = #train.role<loss>},
    // CHECK: #train.role<output "0" batch 0>
        tensor<4x8xi64> {train.role = #train.role<output "0" batch 0>},
    // CHECK: #train.role<gradient "wte.weight">
        tensor<8x8xf32> {train.role = #train.role<gradient "wte.weight">},
    // CHECK: #train.role<buffer "running_mean">
        tensor<8xf32> {train.role = #train.role<buffer "running_mean">})
    // CHECK: train.draws = 1024 : i64, train.phase = #train.phase<microbatch>
    attributes {train.phase = #train.phase<microbatch>, train.draws = 1024 : i64} {
  return %s, %x, %a, %b : tensor<f32>, tensor<4x8xi64>, tensor<8x8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @update
func.func @update(
    %w: tensor<8x8xf32> {train.role = #train.role<parameter "wte.weight">},
    %g: tensor<8x8xf32> {train.role = #train.role<gradient "wte.weight">},
    // CHECK: #train.role<optimizer_state "wte.weight" slot "exp_avg">
    %m: tensor<8x8xf32> {train.role = #train.role<optimizer_state "wte.weight" slot "exp_avg">},
    // CHECK: #train.role<step>
    %t: tensor<f32> {train.role = #train.role<step>})
    -> (tensor<8x8xf32> {train.role = #train.role<parameter "wte.weight">},
        tensor<8x8xf32> {train.role = #train.role<optimizer_state "wte.weight" slot "exp_avg">})
    // CHECK: train.phase = #train.phase<update>
    attributes {train.phase = #train.phase<update>} {
  return %w, %m : tensor<8x8xf32>, tensor<8x8xf32>
}
