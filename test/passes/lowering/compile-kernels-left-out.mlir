// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v2" --split-input-file --verify-diagnostics | FileCheck %s
// RUN: not cleave-opt %s --compile-kernels="cpu=x86-64-v9" --split-input-file 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: env CLEAVE_LLD=/nowhere/ld.lld not cleave-opt %s --compile-kernels="cpu=x86-64-v2" --split-input-file 2>&1 | FileCheck %s --check-prefix=LINKER

// TARGET: error: --compile-kernels: expects cpu to be 'none' or of 'x86-64-v2' 'x86-64-v3' 'x86-64-v4', found 'x86-64-v9'
// LINKER: error: --compile-kernels: cannot link kernels: CLEAVE_LLD is '/nowhere/ld.lld', which is not an executable

// A kernel that is compiled, beside one that is not.
// CHECK-LABEL: exec.kernel @compiled(
// CHECK-SAME: #exec.code
exec.kernel @compiled(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = aten.neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: exec.kernel @product(
// CHECK-NOT: #exec.code
// expected-remark @below {{is not compiled: its ops run one by one}}
exec.kernel @product(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // expected-note @below {{'aten.mm' and the kernel's other ops have no rows in common}}
  %0 = aten.mm(%x, %x) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  exec.return %0 : tensor<8x8xf32>
}

// -----

// CHECK-LABEL: exec.kernel @bytes(
// CHECK-NOT: #exec.code
// expected-remark @below {{is not compiled: its ops run one by one}}
exec.kernel @bytes(%x: tensor<4x8xi8>) -> tensor<4x8xi8> {
  // expected-note @below {{'aten.neg' computes 8- or 16-bit integers}}
  %0 = aten.neg(%x) : (tensor<4x8xi8>) -> tensor<4x8xi8>
  exec.return %0 : tensor<4x8xi8>
}
