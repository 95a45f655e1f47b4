// --prove-each says after each pass that changed something whether the program is the step that it was.

// RUN: cleave-opt %s --prove-each --canonicalize --cse --simplify-communication 2>&1 >/dev/null | FileCheck %s
// RUN: cleave-opt %s --prove-each=strict --pass-pipeline='builtin.module(func.func(cse))' 2>&1 >/dev/null | FileCheck %s

// What changes nothing needs no proof.
// CHECK-NOT: canonicalize
// CHECK: remark: --cse is proved to preserve the step: 1 results ({{[0-9.]+}} s)
// CHECK-NOT: remark

// RUN: cleave-opt %s --cse 2>&1 >/dev/null | count 0

// What is unknown is a remark, or an error that names the pass.
// RUN: cleave-opt %s --prove-each --fuse-kernels 2>&1 >/dev/null | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: remark: --fuse-kernels is not proved to preserve the step: programs of the exec dialect are checked by --verify-exec
// RUN: not cleave-opt %s --prove-each=strict --fuse-kernels --cse 2>&1 | FileCheck %s --check-prefix=STRICT
// STRICT: error: --fuse-kernels is not proved to preserve the step
// STRICT-NOT: --cse
// STRICT: cleave-opt: error: the proof after --fuse-kernels failed

// RUN: not cleave-opt %s --prove-each=loudly --cse 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: for the --prove-each option: Cannot find option named 'loudly'!

dist.mesh @mesh ["tp" = 2]

func.func @f(%x: tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>> {train.role = #train.role<input "x">})
    -> (tensor<1x6xf32, #dist.on<@mesh, tp = R>> {train.role = #train.role<output "0">})
    attributes {train.phase = #train.phase<microbatch>} {
  %0 = aten.tanh(%x) : (tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>
  %1 = aten.tanh(%x) : (tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>
  %2 = aten.mul(%0, %1) : (tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>, tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>
  %3 = aten.sum_dim_int_list(%2, dim = [0], keepdim = true) : (tensor<4x6xf32, #dist.on<@mesh, tp = S(0)>>) -> tensor<1x6xf32, #dist.on<@mesh, tp = P>>
  %4 = dist.all_reduce sum(%3) over @mesh ["tp"] : tensor<1x6xf32, #dist.on<@mesh, tp = P>> -> tensor<1x6xf32, #dist.on<@mesh, tp = R>>
  return %4 : tensor<1x6xf32, #dist.on<@mesh, tp = R>>
}
