// Signatures of more than a thousand characters are printed one argument and one result a line; whatever
// stands in strings and brackets is no separator. Short ones stay on their line.

// RUN: %python -c "import sys; print(open(sys.argv[1]).read().replace('LONG', 'x' * 1000).replace('VALUES', ', '.join(['%%x'] * 60)).replace('TYPES', ', '.join(['tensor<100x200xf32>'] * 60)))" %s > %t.mlir
// RUN: cleave-opt %t.mlir | FileCheck %s
// RUN: cleave-opt %t.mlir | cleave-opt | FileCheck %s
// RUN: cleave-opt %t.mlir -o %t.out.mlir && cleave-opt %t.out.mlir | diff - %t.out.mlir
// RUN: cleave-opt %t.mlir --mlir-print-debuginfo | cleave-opt | FileCheck %s
// RUN: cleave-opt %t.mlir --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// GENERIC: "func.func"() <{

// CHECK: {{^}}  func.func @short(%arg0: tensor<4xf32>) -> tensor<4xf32> {
func.func @short(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// CHECK: {{^}}  func.func @"a(b, c"({{$}}
// CHECK-NEXT: {{^}}      %arg0: tensor<4x8xf32> {train.role = #train.role<parameter "a, b) -> (c{{x+}}" aliases ["d", "e"]>},{{$}}
// CHECK-NEXT: {{^}}      %arg1: tensor<4x8xf32> {train.role = #train.role<input "x\22," batch 0>}){{$}}
// CHECK-NEXT: {{^}}      -> ({{$}}
// CHECK-NEXT: {{^}}      tensor<4x8xf32> {train.role = #train.role<output "p">},{{$}}
// CHECK-NEXT: {{^}}      tensor<4x8xf32> {train.role = #train.role<output "q">}){{$}}
// CHECK-NEXT: {{^}}      attributes {train.phase = #train.phase<microbatch>} {{[{]$}}
func.func @"a(b, c"(%x: tensor<4x8xf32> {train.role = #train.role<parameter "a, b) -> (cLONG" aliases ["d", "e"]>}, %y: tensor<4x8xf32> {train.role = #train.role<input "x\"," batch 0>}) -> (tensor<4x8xf32> {train.role = #train.role<output "p">}, tensor<4x8xf32> {train.role = #train.role<output "q">}) attributes {train.phase = #train.phase<microbatch>} {
  return %x, %y : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK: {{^}}  func.func private @declared({{$}}
// CHECK-COUNT-59: {{^}}      tensor<100x200xf32>,{{$}}
// CHECK-NEXT: {{^}}      tensor<100x200xf32>) -> tensor<4xf32>{{$}}
func.func private @declared(TYPES) -> tensor<4xf32>

// CHECK-LABEL: func.func @many
// CHECK: {{^}}    return %arg0, %arg0, %arg0,{{.*}} %arg0,{{$}}
// CHECK: {{^}}        : tensor<100x200xf32>, tensor<100x200xf32>, tensor<100x200xf32>, tensor<100x200xf32>,{{$}}
// CHECK-NEXT: {{^}}        tensor<100x200xf32>, tensor<100x200xf32>, tensor<100x200xf32>, tensor<100x200xf32>,{{$}}
func.func @many(%x: tensor<100x200xf32>) -> (TYPES) {
  return VALUES : TYPES
}
