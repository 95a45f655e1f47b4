// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// RUN: cleave-opt %s --emit-bytecode -o %t.mlirbc
// RUN: cleave-opt %t.mlirbc | FileCheck %s
// The code is in bytecode as it is: "the code of v3" follows the four bytes that ELF files begin with.
// RUN: grep --count --text "ELFthe code of v3" %t.mlirbc
// RUN: cleave-opt %s --mlir-elide-resource-strings-if-larger=8 | FileCheck %s --check-prefix=ELIDED

// CHECK: exec.binary @kernels_v3 elf for "x86-64-v3" = dense_resource<kernels_v3> : tensor<18xi8>
exec.binary @kernels_v3 elf for "x86-64-v3" = dense_resource<kernels_v3> : tensor<18xi8>
// CHECK: exec.binary @kernels_sm_90a cubin for "sm_90a" = dense_resource<kernels_sm_90a> : tensor<4xi8>
exec.binary @kernels_sm_90a cubin for "sm_90a" = dense_resource<kernels_sm_90a> : tensor<4xi8>

// CHECK: exec.kernel @gelu
// CHECK-SAME: attributes {code = [#exec.code<cpu, phases = [<"gelu", chunks = 8>]>]} {
exec.kernel @gelu(%x: tensor<8x32xf32>) -> tensor<8x32xf32> attributes {code = [
    #exec.code<cpu, phases = [<"gelu", chunks = 8>]>]} {
  %0 = aten.gelu(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  exec.return %0 : tensor<8x32xf32>
}

// CHECK: exec.kernel @both
// CHECK-SAME: code = [#exec.code<cpu, phases = [<"both", chunks = 32>, <"both_finish", chunks = 4>], scratch = 128, partials = 4096>,
// CHECK-SAME:         #exec.code<cuda, phases = [<"both", chunks = 264, threads = 256>], partials = 64>]
exec.kernel @both(%x: tensor<8x32xf32>) -> tensor<8x32xf32> attributes {code = [
    #exec.code<cpu, phases = [<"both", chunks = 32>, <"both_finish", chunks = 4>], scratch = 128, partials = 4096>,
    #exec.code<cuda, phases = [<"both", chunks = 264, threads = 256>], scratch = 0, partials = 64>]} {
  %0 = aten.exp(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  exec.return %0 : tensor<8x32xf32>
}

// CHECK: kernels_v3: "0x010000007F454C4674686520636F6465206F66207633"
// ELIDED-NOT: 7F454C4674
{-#
  dialect_resources: {
    builtin: {
      kernels_v3: "0x010000007F454C4674686520636F6465206F66207633",
      kernels_sm_90a: "0x010000007F454C46"
    }
  }
#-}
