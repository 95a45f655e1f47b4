//===- TorchVersions.h - where versions of LibTorch differ ---------*- C++ -*-===//
//
// The one place that asks which version is compiled against (docs/install.md): a macro for each
// difference that Cleave meets.
//
//===----------------------------------------------------------------------===//

#ifndef CLEAVE_RUNTIME_COMM_TORCHVERSIONS_H
#define CLEAVE_RUNTIME_COMM_TORCHVERSIONS_H

#include <torch/headeronly/version.h>

/// c10d::makeNCCLPreMulSum, which is called makePreMulSum otherwise.
#define CLEAVE_TORCH_HAS_NCCL_PREMUL_SUM (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR <= 11)

/// CUDAAllocator has functions about captures, annotations, rejected requests and given addresses.
#define CLEAVE_TORCH_HAS_WIDE_CUDA_ALLOCATOR (!CLEAVE_TORCH_HAS_NCCL_PREMUL_SUM)

#endif // CLEAVE_RUNTIME_COMM_TORCHVERSIONS_H
