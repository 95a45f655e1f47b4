// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK: module attributes {train.loss_scaling = #train.loss_scaling<init = 6.553600e+04 : f64, growth = 2.000000e+00 : f64, backoff = 5.000000e-01 : f64, interval = 2000>}
module attributes {train.loss_scaling = #train.loss_scaling<init = 65536.0 : f64, growth = 2.0 : f64, backoff = 0.5 : f64, interval = 2000>} {
  train.program
  func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
      -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    return %w : tensor<4xf32>
  }
  // CHECK: func.func @reduce
  func.func @reduce(%g: tensor<4xf32> {train.role = #train.role<gradient "w">},
                    // CHECK-SAME: #train.role<loss_scale>
                    %scale: tensor<f32> {train.role = #train.role<loss_scale>})
      -> (tensor<4xf32> {train.role = #train.role<gradient "w">},
          // CHECK-SAME: #train.role<stage_sum "nonfinite_gradients">
          tensor<f32> {train.role = #train.role<stage_sum "nonfinite_gradients">})
      attributes {train.phase = #train.phase<reduce>} {
    return %g, %scale : tensor<4xf32>, tensor<f32>
  }
  func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                    %g: tensor<4xf32> {train.role = #train.role<gradient "w">},
                    %n: tensor<f32> {train.role = #train.role<stage_sum "nonfinite_gradients">})
      -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
      attributes {train.phase = #train.phase<update>} {
    return %g : tensor<4xf32>
  }
}
