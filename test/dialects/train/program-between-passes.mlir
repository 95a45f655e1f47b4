// What a pass leaves is verified where train.program says that it is a program.
// RUN: not cleave-opt %s --symbol-dce 2>&1 | FileCheck %s
// RUN: sed 's/^  train.program//' %s | cleave-opt --symbol-dce | FileCheck %s --check-prefix=PARTS

// CHECK: error: expects a function of phase forward for this backward
// CHECK: cleave-opt: error: --symbol-dce failed
// PARTS: func.func @backward
module {
  train.program
  func.func private @forward(%x: tensor<4xf32> {train.role = #train.role<input "x">})
      -> (tensor<4xf32> {train.role = #train.role<saved "h">})
      attributes {train.phase = #train.phase<forward>} {
    return %x : tensor<4xf32>
  }
  func.func @second(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @backward(%h: tensor<4xf32> {train.role = #train.role<saved "h">})
      -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
      attributes {train.phase = #train.phase<backward>} {
    return %h : tensor<4xf32>
  }
}
