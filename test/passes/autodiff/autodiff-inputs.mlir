// RUN: cleave-opt %s --autodiff="inputs=x" | FileCheck %s
// RUN: not cleave-opt %s --autodiff="inputs=x,z" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not cleave-opt %s --autodiff="inputs=tokens" 2>&1 | FileCheck %s --check-prefix=INTEGER

// UNKNOWN: error: has no input named 'z', whose gradient is requested
// INTEGER: error: cannot give a gradient of #train.role<input "tokens">, which has type 'tensor<4xi64>'; expected floating-point

// Gradients of inputs are results without accumulators, also where parameters' are accumulated.

// CHECK: func.func @microbatch
// CHECK-SAME: -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4xf32> {train.role = #train.role<gradient "x">})
func.func @microbatch(%x: tensor<4xf32> {train.role = #train.role<input "x" batch 0>},
                      %t: tensor<4xi64> {train.role = #train.role<input "tokens">})
    -> (tensor<f32> {train.role = #train.role<loss>})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.mul(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.sum(%0) : (tensor<4xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
