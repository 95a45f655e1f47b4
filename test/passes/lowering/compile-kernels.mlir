// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v3,x86-64-v2" | FileCheck %s
// RUN: cleave-opt %s --compile-kernels="cpu=none print-programs" -o /dev/null | FileCheck %s --check-prefix=PROGRAM
// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v4 print-assembly" -o /dev/null | FileCheck %s --check-prefix=ASSEMBLY
// What was compiled before is compiled anew.
// RUN: cleave-opt %s --compile-kernels="cpu=x86-64-v3" --compile-kernels="cpu=x86-64-v3,x86-64-v2" | FileCheck %s

// CHECK-DAG: exec.binary @kernels_x86_64_v2 elf for "x86-64-v2" = dense_resource<kernels_x86_64_v2
// CHECK-DAG: exec.binary @kernels_x86_64_v3 elf for "x86-64-v3" = dense_resource<kernels_x86_64_v3

// Rows do not matter: chunks are parts of one long row.
// CHECK-LABEL: exec.kernel @gate(
// CHECK-SAME: #exec.code<cpu, phases = [<"gate", chunks = 8>]>
// PROGRAM: gate: 256 rows of 512 columns
// PROGRAM-NEXT: %0 = load tensor 0 at [512; 1] : f32 rows columns 512
// PROGRAM: store %{{[0-9]+}} to tensor 2 at [512; 1] : rows columns 512
// ASSEMBLY-LABEL: gate:
// ASSEMBLY: zmm
exec.kernel @gate(%a: tensor<256x512xf32>, %b: tensor<256x512xf32>) -> tensor<256x512xf32> {
  %0 = aten.silu(%a) : (tensor<256x512xf32>) -> tensor<256x512xf32>
  %1 = aten.mul(%0, %b) : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<256x512xf32>
  exec.return %1 : tensor<256x512xf32>
}

// The exponentials of a row are kept for the last walk. The second walk asks for the next row.
// CHECK-LABEL: exec.kernel @softmax(
// CHECK-SAME: #exec.code<cpu, phases = [<"softmax", chunks = 1>], scratch = 256>
// PROGRAM-LABEL: softmax: 32 rows of 64 columns
// PROGRAM-NEXT: %0 = load tensor 0 at [64; 1] : f32 rows columns 64
// PROGRAM-NEXT: %1 = max_numbers over columns %0 : f32 rows
// PROGRAM-NEXT: %2 = sub %0 %1 : f32 rows columns 64
// PROGRAM-NEXT: %3 = exp %2 : f32 rows columns 64
// PROGRAM-NEXT: %4 = sum over columns %3 : f32 rows
// PROGRAM-NEXT: %5 = constant 1 : f32 scalar
// PROGRAM-NEXT: %6 = div %5 %4 : f32 rows
// PROGRAM-NEXT: %7 = mul %3 %6 : f32 rows columns 64
// PROGRAM-NEXT: store %7 to tensor 1 at [64; 1] : rows columns 64
// ASSEMBLY-NOT: prefetch
// ASSEMBLY-LABEL: {{^}}softmax:
// ASSEMBLY: vmaxps
// ASSEMBLY: prefetcht0
// ASSEMBLY: vscalefps
exec.kernel @softmax(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %0 = aten._softmax(%x, dim = -1, half_to_float = false) : (tensor<32x64xf32>) -> tensor<32x64xf32>
  exec.return %0 : tensor<32x64xf32>
}

// Each chunk adds up its rows; the second phase adds the chunks.
// CHECK-LABEL: exec.kernel @bias_gradient(
// CHECK-SAME: phases = [<"bias_gradient", chunks = 32>, <"bias_gradient_finish", chunks = 1>]
// CHECK-SAME: partials = 16384>
// PROGRAM-LABEL: bias_gradient:
// PROGRAM: sum over rows
exec.kernel @bias_gradient(%g: tensor<4096x128xf32>, %y: tensor<4096x128xf32>) -> (tensor<4096x128xf32>, tensor<128xf32>) {
  %0 = aten.tanh_backward(%g, %y) : (tensor<4096x128xf32>, tensor<4096x128xf32>) -> tensor<4096x128xf32>
  %1 = aten.sum_dim_int_list(%0, dim = [0]) : (tensor<4096x128xf32>) -> tensor<128xf32>
  exec.return %0, %1 : tensor<4096x128xf32>, tensor<128xf32>
}

// A kernel may have the name of another one's phase.
// CHECK-LABEL: exec.kernel @bias_gradient_finish(
// CHECK-SAME: <"bias_gradient_finish_", chunks = 1>
exec.kernel @bias_gradient_finish(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = aten.neg(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  exec.return %0 : tensor<4x8xf32>
}

// Halves of rows change places.
// PROGRAM-LABEL: turn: 6 rows of 8 columns
// PROGRAM-NEXT: %0 = load tensor 0 at [8; 1] : f32 rows columns 8
// PROGRAM-NEXT: %1 = slice from 4 %0 : f32 rows columns 4
// PROGRAM-NEXT: %2 = slice from 0 %0 : f32 rows columns 4
// PROGRAM-NEXT: %3 = concat %1 %2 : f32 rows columns 8
// PROGRAM-NEXT: store %3
exec.kernel @turn(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %0 = aten.slice(%x, dim = 1, start = 4, end = 8) : (tensor<6x8xf32>) -> tensor<6x4xf32>
  %1 = aten.slice(%x, dim = 1, start = 0, end = 4) : (tensor<6x8xf32>) -> tensor<6x4xf32>
  %2 = aten.cat([%0, %1], dim = 1) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
  exec.return %2 : tensor<6x8xf32>
}
