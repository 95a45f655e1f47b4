// REQUIRES: cuda-toolkit
// RUN: cleave-opt %s --compile-kernels="cpu=none cuda=sm_80,sm_90,sm_100 print-resources" -o %t.mlir > %t.txt
// RUN: FileCheck %s --input-file %t.mlir
// RUN: FileCheck %s --input-file %t.txt --check-prefix=RESOURCES
//
// Both families of processors; what was compiled is compiled anew.
// RUN: cleave-opt %t.mlir --compile-kernels="cpu=x86-64-v3 cuda=sm_90" | FileCheck %s --check-prefix=BOTH

// CHECK-DAG: exec.binary @kernels_sm_80 cubin for "sm_80" = dense_resource<{{.*}}> : tensor<{{[0-9]+}}xi8>
// CHECK-DAG: exec.binary @kernels_sm_90 cubin for "sm_90" = dense_resource<{{.*}}> : tensor<{{[0-9]+}}xi8>
// CHECK-DAG: exec.binary @kernels_sm_100 cubin for "sm_100" = dense_resource<{{.*}}> : tensor<{{[0-9]+}}xi8>
// BOTH-NOT: sm_80
// BOTH-DAG: exec.binary @kernels_x86_64_v3 elf for "x86-64-v3"
// BOTH-DAG: exec.binary @kernels_sm_90 cubin for "sm_90"

// A flat kernel: 8192 elements in steps of 4 for each thread, two steps.
// CHECK: exec.kernel @add_gelu
// CHECK-SAME: code = [#exec.code<cuda, phases = [<"add_gelu", chunks = 4, threads = 256>]>]
// RESOURCES-DAG: sm_80 add_gelu: 256 threads, {{[0-9]+}} registers, 0 bytes spilled, 0 bytes shared
// RESOURCES-DAG: sm_100 add_gelu: 256 threads, {{[0-9]+}} registers, 0 bytes spilled, 0 bytes shared
// BOTH: exec.kernel @add_gelu
// BOTH-SAME: code = [#exec.code<cpu, phases = {{.*}}>, #exec.code<cuda, phases = [<"add_gelu", chunks = 4, threads = 256>]>]
exec.kernel @add_gelu(%x: tensor<64x128xf32>, %y: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %0 = aten.add(%x, %y) : (tensor<64x128xf32>, tensor<64x128xf32>) -> tensor<64x128xf32>
  %1 = aten.gelu(%0) : (tensor<64x128xf32>) -> tensor<64x128xf32>
  exec.return %1 : tensor<64x128xf32>
}

// Rows of 96 columns, 24 threads of a warp busy with each; sums over rows in a phase of their own.
// CHECK: exec.kernel @softmax_sum
// CHECK-SAME: phases = [<"softmax_sum", chunks = {{[0-9]+}}, threads = 128>, <"softmax_sum$finish", chunks = 3, threads = {{[0-9]+}}>]
// CHECK-SAME: partials = {{[1-9][0-9]*}}
// RESOURCES-DAG: sm_90 softmax_sum: 128 threads, {{[0-9]+}} registers, 0 bytes spilled, {{[0-9]+}} bytes shared
// RESOURCES-DAG: sm_90 softmax_sum$finish: {{[0-9]+}} threads, {{[0-9]+}} registers, 0 bytes spilled, {{[1-9][0-9]*}} bytes shared
exec.kernel @softmax_sum(%x: tensor<50x96xbf16>) -> (tensor<50x96xbf16>, tensor<96xbf16>) {
  %0 = aten._softmax(%x, dim = -1, half_to_float = false) : (tensor<50x96xbf16>) -> tensor<50x96xbf16>
  %1 = aten.sum_dim_int_list(%0, dim = [0]) : (tensor<50x96xbf16>) -> tensor<96xbf16>
  exec.return %0, %1 : tensor<50x96xbf16>, tensor<96xbf16>
}
