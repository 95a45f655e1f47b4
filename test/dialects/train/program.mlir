// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode | cleave-opt | FileCheck %s

// CHECK: module @whole {
// CHECK-NEXT: train.program
module @whole {
  train.program
  func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                        %a: tensor<4xf32> {train.role = #train.role<accumulator "w">})
      -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<microbatch>} {
    %0 = train.accumulate %w into %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                    %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
      -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
      attributes {train.phase = #train.phase<update>} {
    return %g : tensor<4xf32>
  }
}
