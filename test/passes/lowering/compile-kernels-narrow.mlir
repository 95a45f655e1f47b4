// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v2 print-assembly" -o /dev/null | FileCheck %s
// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v3 print-assembly" -o /dev/null | FileCheck %s
// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v4 print-assembly" -o /dev/null | FileCheck %s

// A narrow number that is known before a loop goes into it as its bits, and not by way of the
// functions of a compiler's runtime (__truncsfbf2, __extendhfsf2, ...).
// CHECK-NOT: call

// CHECK-LABEL: {{^}}bfloat:
exec.kernel @bfloat(%a: tensor<bf16>, %b: tensor<40xbf16>) -> (tensor<40xbf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>) {
  %0 = aten.sum(%b) : (tensor<40xbf16>) -> tensor<bf16>
  %1 = aten.abs(%a) : (tensor<bf16>) -> tensor<bf16>
  %2 = aten.neg(%b) : (tensor<40xbf16>) -> tensor<40xbf16>
  %3 = aten.mul(%0, %0) : (tensor<bf16>, tensor<bf16>) -> tensor<bf16>
  exec.return %2, %0, %3, %1 : tensor<40xbf16>, tensor<bf16>, tensor<bf16>, tensor<bf16>
}

// CHECK-NOT: call
// CHECK-LABEL: {{^}}half:
exec.kernel @half(%a: tensor<f16>, %b: tensor<40xf16>) -> (tensor<40xf16>, tensor<f16>, tensor<f16>, tensor<f16>) {
  %0 = aten.sum(%b) : (tensor<40xf16>) -> tensor<f16>
  %1 = aten.abs(%a) : (tensor<f16>) -> tensor<f16>
  %2 = aten.neg(%b) : (tensor<40xf16>) -> tensor<40xf16>
  %3 = aten.mul(%0, %0) : (tensor<f16>, tensor<f16>) -> tensor<f16>
  exec.return %2, %0, %3, %1 : tensor<40xf16>, tensor<f16>, tensor<f16>, tensor<f16>
}

// By way of f32, as PyTorch does.
// CHECK-NOT: call
// CHECK-LABEL: {{^}}double:
exec.kernel @double(%a: tensor<f64>, %b: tensor<40xf64>) -> (tensor<40xf64>, tensor<bf16>, tensor<f16>, tensor<f64>) {
  %0 = aten.sum(%b) : (tensor<40xf64>) -> tensor<f64>
  %1 = aten.abs(%a) : (tensor<f64>) -> tensor<f64>
  %2 = aten._to_copy(%1, dtype = bf16) : (tensor<f64>) -> tensor<bf16>
  %3 = aten._to_copy(%1, dtype = f16) : (tensor<f64>) -> tensor<f16>
  %4 = aten.neg(%b) : (tensor<40xf64>) -> tensor<40xf64>
  exec.return %4, %2, %3, %0 : tensor<40xf64>, tensor<bf16>, tensor<f16>, tensor<f64>
}
// CHECK-NOT: call
