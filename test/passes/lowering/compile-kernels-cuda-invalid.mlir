// What keeps kernels from being compiled for GPUs.
//
// RUN: not cleave-opt %s --compile-kernels="cpu=none cuda=sm_42" 2>&1 | FileCheck %s --check-prefix=CHIP
// CHIP: error: --compile-kernels: no chip 'sm_42': kernels are compiled for sm_80, sm_90, sm_100
//
// RUN: env CUDA_HOME=/no/such/toolkit not cleave-opt %s --compile-kernels="cpu=none cuda=sm_90" 2>&1 | FileCheck %s --check-prefix=PTXAS
// PTXAS: error: --compile-kernels: compiling for a GPU needs ptxas, but found none at /no/such/toolkit/bin/ptxas (CUDA_HOME)
//
// RUN: rm -rf %t && mkdir -p %t/bin && printf '#!/bin/sh\necho "ptxas fatal: out of luck"\nexit 1\n' > %t/bin/ptxas && chmod +x %t/bin/ptxas
// RUN: env CUDA_HOME=%t not cleave-opt %s --compile-kernels="cpu=none cuda=sm_90" 2>&1 | FileCheck %s --check-prefix=LIBDEVICE
// LIBDEVICE: error: --compile-kernels: compiling for a GPU needs libdevice, but there is no file {{.*}}/nvvm/libdevice/libdevice.10.bc (CUDA_HOME)
//
// A libdevice that lacks what is called, and an assembler that fails.
// RUN: mkdir -p %t/nvvm/libdevice && printf '' > %t/nvvm/libdevice/libdevice.10.bc
// RUN: env CUDA_HOME=%t not cleave-opt %s --compile-kernels="cpu=none cuda=sm_90" 2>&1 | FileCheck %s --check-prefix=BITCODE
// BITCODE: error: --compile-kernels: cannot read libdevice at {{.*}}/nvvm/libdevice/libdevice.10.bc
//
// RUN: sed s/aten.exp/aten.neg/ %s | env CUDA_HOME=%t not cleave-opt - --compile-kernels="cpu=none cuda=sm_90" 2>&1 | FileCheck %s --check-prefix=FAILED
// FAILED: error: --compile-kernels: {{.*}}/bin/ptxas failed for sm_90: ptxas fatal: out of luck

exec.kernel @exp(%x: tensor<8x32xf32>) -> tensor<8x32xf32> {
  %0 = aten.exp(%x) : (tensor<8x32xf32>) -> tensor<8x32xf32>
  exec.return %0 : tensor<8x32xf32>
}
