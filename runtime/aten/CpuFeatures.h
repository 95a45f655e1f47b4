//===- CpuFeatures.h - what the processor announces and refuses ----*- C++ -*-===//

#ifndef CLEAVE_RUNTIME_ATEN_CPUFEATURES_H
#define CLEAVE_RUNTIME_ATEN_CPUFEATURES_H

namespace cleave::runtime {

/// Some virtual machines announce AMX and kill processes that use it; oneDNN's bfloat16 kernels do.
/// Where a child process that tries one tile instruction dies of it, this limits oneDNN to AVX-512
/// through its ONEDNN_MAX_CPU_ISA, which is left alone where it is set. Call it first in `main`,
/// before threads and before anything of LibTorch runs.
void avoidRefusedAmx();

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_ATEN_CPUFEATURES_H
