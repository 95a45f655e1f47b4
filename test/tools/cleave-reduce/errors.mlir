// RUN: not cleave-reduce %s --reduce-program='test=%S/no-such-script.sh' 2>&1 | FileCheck %s --check-prefix=SCRIPT
// RUN: not cleave-reduce %s --reduce-program='test=%S/Inputs/needs-mm.sh' 2>&1 | FileCheck %s --check-prefix=DULL

// SCRIPT: errors.mlir{{.*}}error: expects an executable script for 'test', found '{{.*}}no-such-script.sh'
// DULL: errors.mlir{{.*}}error: is not interesting: '{{.*}}needs-mm.sh' does not exit with 1 on it

func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
