// RUN: not cleave-opt %s --sync-gradients="size=-1" 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not cleave-opt %s --sync-gradients="axis=" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not cleave-opt %s --sync-gradients="axis=dp size=two" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: cleave-opt %s --sync-gradients="size=4" -o %t.mlir
// RUN: sed 's/over \["dp"\]//; /dist.all_reduce/d; s/return %0/return %arg1/' %t.mlir > %t.again.mlir
// RUN: not cleave-opt %t.again.mlir --sync-gradients="size=2" 2>&1 | FileCheck %s --check-prefix=OTHER

// NEGATIVE: error: expects a positive size for axis 'dp', found -1
// EMPTY: error: expects the name of a mesh axis for 'axis', found none
// WORD: 'two' value invalid
// OTHER: error: expects axis 'dp' to have size 2, found #dist.axis<"dp" = 4>

func.func @microbatch(%w: tensor<4xf32> {train.role = #train.role<parameter "w">})
    -> (tensor<4xf32> {train.role = #train.role<gradient "w">})
    attributes {train.phase = #train.phase<microbatch>} {
  return %w : tensor<4xf32>
}

func.func @update(%w: tensor<4xf32> {train.role = #train.role<parameter "w">},
                  %g: tensor<4xf32> {train.role = #train.role<gradient "w">})
    -> (tensor<4xf32> {train.role = #train.role<parameter "w">})
    attributes {train.phase = #train.phase<update>} {
  return %g : tensor<4xf32>
}
