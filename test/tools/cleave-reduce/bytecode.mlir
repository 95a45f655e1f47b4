// Programs in bytecode are read as cleave-opt reads them: compiled code in them, which is aligned, included; and damage
// is refused.
// RUN: cleave-opt %s --emit-bytecode -o %t.mlirbc
// RUN: cleave-reduce %t.mlirbc --reduce-program='test=%S/Inputs/needs-mm.sh' | FileCheck %s
// RUN: cleave-reduce --reduce-program='test=%S/Inputs/needs-mm.sh' < %t.mlirbc | FileCheck %s
// RUN: head -c 300 %t.mlirbc > %t.cut
// RUN: not cleave-reduce %t.cut --reduce-program='test=%S/Inputs/needs-mm.sh' 2>&1 | FileCheck %s --check-prefix=CUT
// RUN: not cleave-reduce %t.none --reduce-program='test=%S/Inputs/needs-mm.sh' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not cleave-reduce %s -o %t.none/out.mlir --reduce-program='test=%S/Inputs/needs-mm.sh' 2>&1 | FileCheck %s --check-prefix=OUTPUT

// CHECK: func.func @main
// CHECK-NEXT: aten.mm
// CHECK-NEXT: return
// CUT: cleave-reduce: error: {{.*}}.cut
// NONE: cleave-reduce: error: cannot open input file '{{.*}}.none': No such file or directory
// OUTPUT: cleave-reduce: error: cannot open output file '{{.*}}out.mlir': No such file or directory

exec.binary @v2 elf for "x86-64-v2" = dense_resource<v2> : tensor<6xi8>

func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

{-# dialect_resources: { builtin: { v2: "0x400000007F454C460001" } } #-}
